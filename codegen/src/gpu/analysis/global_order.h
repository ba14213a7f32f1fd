// The order of accesses to global memory inside a block. The ops of a program take effect in program order, but
// different threads do their elements: a barrier stands between two ops that may touch the same bytes by different
// threads, where one of them writes. Lowering marks each op before its accesses; insert_barriers.cpp does the rest.
//
//   mark(load %p)     ; x, elements of %p in layout 0
//   mark(store %p)    ; the same threads touch the same elements: no barrier
//   mark(load %q)     ; x at other addresses: a barrier in front
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <compare>
#include <map>
#include <optional>
#include <vector>

#include "gpu/layout/layout.h"
#include "gpu/target_info.h"
#include "passes/pointers.h"

namespace kiln::codegen::gpu {

// The accesses of one op, or of several alike.
struct OrderedAccess {
  // What it may touch: the buffer of a parameter, that of any one, or (atomics that order other accesses) whatever
  // other programs may have written.
  enum class Reach : uint8_t { kParameter, kAny, kOrdering };
  Reach reach = Reach::kAny;
  size_t parameter = 0;
  bool is_constant = false;  // nobody writes there while the kernel runs
  bool writes = false;
  // Which addresses in which threads: accesses of one number are the same in each run of the region that gives the
  // pointers their values. Lanes of one place that share addresses have none.
  std::optional<size_t> place;
  const dsl::Region* region = nullptr;
  size_t lanes = 0;  // which elements in which threads, whatever the addresses
  int64_t elements = 1;
  bool copies = false;  // several threads have the same element; the first one writes

  auto operator<=>(const OrderedAccess&) const = default;
};

// `same_run`: the regions of the places have not begun anew between the two.
bool needs_barrier(const OrderedAccess& before, const OrderedAccess& after, bool same_run);

class GlobalOrder {
 public:
  explicit GlobalOrder(const dsl::Kernel& kernel) : kernel_(kernel), pointers_(kernel) {}

  enum class Use : uint8_t { kRead, kWrite, kOrderingWrite };
  // Before the accesses of an op, which follow each other without a barrier.
  void mark(Builder& ir, dsl::ValueId pointers, const Layout& layout, Use use);
  // Where a run of a region begins.
  void begin(Builder& ir, const dsl::Region& region);

  const Pointers& pointers() const { return pointers_; }
  const std::vector<OrderedAccess>& accesses() const { return accesses_; }
  const std::vector<const dsl::Region*>& runs() const { return runs_; }

 private:
  size_t lanes_number(const Layout& layout);
  size_t place_number(dsl::ValueId pointers, size_t lanes);

  const dsl::Kernel& kernel_;
  Pointers pointers_;
  std::vector<Layout> layouts_;
  std::map<std::pair<dsl::ValueId, size_t>, size_t> places_;  // by pointers and lanes
  std::vector<OrderedAccess> accesses_;
  std::map<OrderedAccess, size_t> numbers_;
  std::vector<const dsl::Region*> runs_;
};

// What a mark says: a number of `accesses` or of `runs`.
struct GlobalMark {
  bool is_access = false;
  size_t number = 0;
};
std::optional<GlobalMark> global_mark(const llvm::Instruction& instruction);
void erase_global_marks(llvm::Function& function);

}  // namespace kiln::codegen::gpu
