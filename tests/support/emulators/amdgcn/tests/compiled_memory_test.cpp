// Memory as LLVM's AMDGPU backend uses it: private arrays, LDS and barriers, flat pointers, atomics, exchanges of
// lanes.
#include <numeric>

#include "elementwise.h"

namespace kiln::amdgcn_emulator {
namespace {

class CompiledMemory : public testing::TestWithParam<const char*> {
 protected:
  std::string gfx() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Gfx, CompiledMemory,
                         testing::Values("gfx942", "gfx1100", "gfx90a", "gfx1200", "gfx906", "gfx950", "gfx1250"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(CompiledMemory, KeepsPrivateArraysApart) {
  // An array that only memory can hold: written at %b % 16, read at %c % 16.
  std::string body = R"(
  %array = alloca [16 x i32], addrspace(5)
  call void @llvm.memset.p5.i32(ptr addrspace(5) %array, i8 3, i32 64, i1 false)
  %ib = and i32 %b, 15
  %ic = and i32 %c, 15
  %pw = getelementptr i32, ptr addrspace(5) %array, i32 %ib
  store volatile i32 %a, ptr addrspace(5) %pw
  %pr = getelementptr i32, ptr addrspace(5) %array, i32 %ic
  %r = load volatile i32, ptr addrspace(5) %pr)";
  expect_map<uint32_t, uint32_t>(
      gfx(), map_kernel("i32", "i32", body, "declare void @llvm.memset.p5.i32(ptr addrspace(5), i8, i32, i1)"),
      [](uint32_t a, uint32_t b, uint32_t c) { return (b & 15) == (c & 15) ? a : 0x03030303; });
}

TEST_P(CompiledMemory, ReachesPrivateMemoryByFlatPointers) {
  std::string body = R"(
  %array = alloca [4 x i32], addrspace(5)
  %flat = addrspacecast ptr addrspace(5) %array to ptr
  %odd = and i32 %b, 3
  %pw = getelementptr i32, ptr %flat, i32 %odd
  store volatile i32 %a, ptr %pw
  %pr = getelementptr i32, ptr addrspace(5) %array, i32 %odd
  %r = load volatile i32, ptr addrspace(5) %pr)";
  expect_map<uint32_t, uint32_t>(gfx(), map_kernel("i32", "i32", body),
                                 [](uint32_t a, uint32_t, uint32_t) { return a; });
}

TEST_P(CompiledMemory, ExchangesThroughLdsAcrossABarrier) {
  std::string body = R"(
  %pw = getelementptr i32, ptr addrspace(3) @shared, i32 %item
  store i32 %a, ptr addrspace(3) %pw
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %other = sub i32 127, %item
  %pr = getelementptr i32, ptr addrspace(3) @shared, i32 %other
  %flat = addrspacecast ptr addrspace(3) %pr to ptr
  %x = load i32, ptr addrspace(3) %pr
  %y = load volatile i32, ptr %flat
  %r = sub i32 %x, %y)";
  expect_map<uint32_t, uint32_t>(gfx(),
                                 map_kernel("i32", "i32", body,
                                            "@shared = internal addrspace(3) global [128 x i32] poison\n"
                                            "declare void @llvm.amdgcn.s.barrier()"),
                                 [](uint32_t, uint32_t, uint32_t) { return 0u; });
}

TEST_P(CompiledMemory, CountsByAtomics) {
  // Each thread adds to one of four counters in its workgroup's LDS, in f32 and by compare-and-swap of i64 as well.
  std::string body = R"(
  %zero = getelementptr i64, ptr addrspace(3) @counters, i32 %item
  %small = icmp ult i32 %item, 3
  br i1 %small, label %clear, label %ready
clear:
  store i64 0, ptr addrspace(3) %zero
  br label %ready
ready:
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  %old = atomicrmw add ptr addrspace(3) @counters, i32 1 syncscope("workgroup") monotonic
  %pf = getelementptr i64, ptr addrspace(3) @counters, i32 1
  %f = atomicrmw fadd ptr addrspace(3) %pf, float 2.0 syncscope("workgroup") monotonic
  %pm = getelementptr i64, ptr addrspace(3) @counters, i32 2
  %wide = zext i32 %item to i64
  %m = atomicrmw umax ptr addrspace(3) %pm, i64 %wide syncscope("workgroup") monotonic
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %n = load i32, ptr addrspace(3) @counters
  %sum = load float, ptr addrspace(3) %pf
  %isum = fptoui float %sum to i32
  %most = load i32, ptr addrspace(3) %pm
  %s0 = shl i32 %n, 20
  %s1 = shl i32 %isum, 8
  %s2 = or i32 %s0, %s1
  %r = or i32 %s2, %most)";
  expect_map<uint32_t, uint32_t>(gfx(),
                                 map_kernel("i32", "i32", body,
                                            "@counters = internal addrspace(3) global [4 x i64] poison\n"
                                            "declare void @llvm.amdgcn.s.barrier()"),
                                 [](uint32_t, uint32_t, uint32_t) { return 128u << 20 | 256u << 8 | 127u; });
}

TEST_P(CompiledMemory, ChangesGlobalMemoryByAtomics) {
  // Every element of %a is incremented where it was 5, by compare-and-swap in its own place of the output.
  std::string body = R"(
  %place = getelementptr i64, ptr addrspace(1) %out, i32 %i
  store i64 %a, ptr addrspace(1) %place
  %pair = cmpxchg ptr addrspace(1) %place, i64 5, i64 %b syncscope("agent") acq_rel monotonic
  %sum = atomicrmw add ptr addrspace(1) %place, i64 %c syncscope("agent") monotonic
  %r = add i64 %sum, %c)";
  expect_map<uint64_t, uint64_t>(gfx(), map_kernel("i64", "i64", body),
                                 [](uint64_t a, uint64_t b, uint64_t c) { return (a == 5 ? b : a) + c; });
}

TEST_P(CompiledMemory, ShufflesLanes) {
  std::string body = R"(
  %lo = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0)
  %lane = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %lo)
  %next = xor i32 %lane, 5
  %address = shl i32 %next, 2
  %x = call i32 @llvm.amdgcn.ds.bpermute(i32 %address, i32 %item)
  %half = call i32 @llvm.amdgcn.update.dpp.i32(i32 0, i32 %item, i32 320, i32 15, i32 15, i1 true)
  %first = call i32 @llvm.amdgcn.readfirstlane(i32 %item)
  %expected = xor i32 %item, 5
  %d = sub i32 %x, %expected
  %row = and i32 %item, 15
  %mirrored = sub i32 15, %row
  %row_base = and i32 %item, -16
  %m = add i32 %row_base, %mirrored
  %e = sub i32 %half, %m
  %both = or i32 %d, %e
  %start = sub i32 %item, %lane
  %g = sub i32 %first, %start
  %r = or i32 %both, %g)";
  expect_map<uint32_t, uint32_t>(gfx(), map_kernel("i32", "i32", body, R"(
declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)
declare i32 @llvm.amdgcn.mbcnt.hi(i32, i32)
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)
declare i32 @llvm.amdgcn.readfirstlane(i32))"),
                                 [](uint32_t, uint32_t, uint32_t) { return 0u; });
}

TEST_P(CompiledMemory, CallsFunctions) {
  std::string function = R"(
define internal i32 @collatz(i32 %n) noinline {
entry:
  br label %loop
loop:
  %x = phi i32 [%n, %entry], [%y, %loop]
  %k = phi i32 [0, %entry], [%j, %loop]
  %bit = and i32 %x, 1
  %odd = icmp eq i32 %bit, 1
  %t = mul i32 %x, 3
  %t1 = add i32 %t, 1
  %h = lshr i32 %x, 1
  %y = select i1 %odd, i32 %t1, i32 %h
  %j = add i32 %k, 1
  %done = icmp ule i32 %y, 1
  br i1 %done, label %end, label %loop
end:
  ret i32 %j
}
)";
  expect_map<uint32_t, uint32_t>(
      gfx(), map_kernel("i32", "i32", "%n = and i32 %a, 255\n  %r = call i32 @collatz(i32 %n)", function),
      [](uint32_t a, uint32_t, uint32_t) {
        uint32_t x = a & 255, k = 0;
        do {
          x = x & 1 ? 3 * x + 1 : x / 2;
          ++k;
        } while (x > 1);
        return k;
      });
}

}  // namespace
}  // namespace kiln::amdgcn_emulator
