// Between which accesses to global memory of a block of threads a barrier stands.
#include "gpu/analysis/global_order.h"

#include <gtest/gtest.h>

namespace kiln::test {
namespace {

using codegen::gpu::needs_barrier;
using codegen::gpu::OrderedAccess;
using Reach = OrderedAccess::Reach;

OrderedAccess access(size_t parameter, bool writes, std::optional<size_t> place, size_t lanes = 0) {
  OrderedAccess out;
  out.reach = Reach::kParameter;
  out.parameter = parameter;
  out.writes = writes;
  out.place = place;
  out.lanes = lanes;
  out.elements = 64;
  return out;
}

TEST(GlobalOrder, ReadsNeedNoBarrier) { EXPECT_FALSE(needs_barrier(access(0, false, 0), access(0, false, 1), true)); }

TEST(GlobalOrder, InPlaceNeedsNoBarrierInOneRunOfTheRegion) {
  const OrderedAccess load = access(0, false, 0), store = access(0, true, 0);
  EXPECT_FALSE(needs_barrier(load, store, true));
  EXPECT_FALSE(needs_barrier(store, load, true));
  EXPECT_FALSE(needs_barrier(store, store, true));
  EXPECT_TRUE(needs_barrier(store, load, false));
}

TEST(GlobalOrder, OtherAddressesOfOneBufferNeedOne) {
  EXPECT_TRUE(needs_barrier(access(0, false, 0), access(0, true, 1), true));
  EXPECT_TRUE(needs_barrier(access(0, true, 0), access(0, false, 1), true));
  EXPECT_TRUE(needs_barrier(access(0, true, {}), access(0, true, {}), true));
}

TEST(GlobalOrder, ThreadsThatReadCopiesNeedOneBesideTheWriter) {
  OrderedAccess load = access(0, false, 0), store = access(0, true, 0);
  load.copies = store.copies = true;
  EXPECT_TRUE(needs_barrier(load, store, true));
  EXPECT_FALSE(needs_barrier(store, store, true));
}

// Buffers of two parameters may be one, where the same lane touches the same address.
TEST(GlobalOrder, LanesOfTwoBuffersStayInTheirThreads) {
  EXPECT_FALSE(needs_barrier(access(0, false, 0, 0), access(1, true, 1, 0), true));
  EXPECT_TRUE(needs_barrier(access(0, false, 0, 0), access(1, true, 1, 1), true));
  OrderedAccess larger = access(1, true, 1, 1);
  larger.elements = 128;
  EXPECT_FALSE(needs_barrier(access(0, false, 0, 0), larger, true));
}

TEST(GlobalOrder, WhatMayBeAnywhereMeetsAll) {
  OrderedAccess any = access(7, true, {});
  any.reach = Reach::kAny;
  EXPECT_TRUE(needs_barrier(any, access(1, false, 0), true));
}

TEST(GlobalOrder, OrderingAtomicsMeetAllButConstants) {
  OrderedAccess atomic = access(0, true, {}), constant = access(1, false, 0), variable = access(2, false, 1);
  atomic.reach = Reach::kOrdering;
  constant.is_constant = true;
  EXPECT_FALSE(needs_barrier(atomic, constant, true));
  EXPECT_TRUE(needs_barrier(atomic, variable, true));
  EXPECT_TRUE(needs_barrier(variable, atomic, true));
}

}  // namespace
}  // namespace kiln::test
