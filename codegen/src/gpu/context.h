// What the lowering of one kernel to GPU code shares between its files.
//
// Scheme. A program is a block of threads. Ops are lowered in program order; a tile is a list of registers, one LLVM
// scalar for each element that a thread holds in the tile's layout. Scalars (rank 0) are tiles of one register that all
// threads have alike, so control flow is uniform in a block. A value without a home (placement.h) is emitted when some
// op asks for it, in the layout asked for.
#pragma once

#include <llvm/IR/Module.h>

#include <array>
#include <map>

#include "elementwise/elementwise.h"
#include "gpu/placement.h"
#include "gpu/target_info.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::gpu {

// Of one thread, by register number of the layout.
using Registers = std::vector<Value*>;

// A region that is being lowered, and what has been computed of its values.
struct Scope {
  const dsl::Region* region = nullptr;
  // Where more code of this scope goes while an inner one is lowered: before this. Null: where the builder stands.
  llvm::Instruction* before = nullptr;
  std::map<std::pair<ValueId, size_t>, Registers> computed;  // by value and number of the layout
};

class Context : public ElementContext {
 public:
  Context(const dsl::Kernel& kernel, const TargetInfo& target, llvm::Module& module, const Placement& placement,
          const BlockShape& block, const std::string& processor);

  const TargetInfo& target;
  llvm::Module& module;
  const Placement& placement;
  const BlockShape block;
  Builder b;
  llvm::Function* function = nullptr;
  std::vector<const Op*> definition;  // by value; null for parameters and region arguments
  std::vector<AxisInfo> info;         // by value

  Value* lane = nullptr;
  Value* warp = nullptr;
  std::array<Value*, 3> program_id{}, num_programs{};
  // What comes before this, in the entry block, dominates the whole kernel.
  llvm::Instruction* prologue_end = nullptr;

  // The registers of a value in a layout: as they are, converted, or computed.
  Result<Registers> get(ValueId id, const Layout& layout);
  // … in its home.
  Result<Registers> get(ValueId id) { return get(id, *placement.home[id]); }
  Value* scalar(ValueId id);
  // What an op has computed, in the value's home.
  void define(ValueId id, Registers registers);

  // Regions inside each other. While the inner one is lowered, what it needs of outer values goes before `guard`.
  void enter(const dsl::Region& region, llvm::Instruction* guard);
  void leave();

  // The coordinate along an axis of the element in a register, i32.
  Value* coordinate(const Layout& layout, size_t reg, int axis);
  // Whether the register's element lies in the tile, which its layout pads to powers of two: null for always.
  Value* in_tile(const Layout& layout, size_t reg, const dsl::Type& type);
  // The part of a layout's element that lane and warp make up, along an axis, and that of the register.
  Value* thread_coordinate(const Layout& layout, int axis);
  int64_t register_coordinate(const Layout& layout, size_t reg, int axis) const;

 private:
  Scope& scope_of(ValueId id);
  size_t number_of(const Layout& layout);

  std::vector<Scope> scopes_;
  std::vector<const dsl::Region*> region_of_;  // by value
  std::vector<Layout> layouts_;
  std::map<std::pair<size_t, int>, Value*> thread_coordinates_;
};

// evaluate.cpp: a value without a home, in a layout.
Result<Registers> compute(Context& c, ValueId id, const Layout& layout);
// convert.cpp: registers in one layout, from those in another.
Result<Registers> convert(Context& c, const Registers& registers, const dsl::Type& type, const Layout& from,
                          const Layout& to);
// address.cpp: where the pointers of a tile point, register by register.
struct Address {
  Value* base = nullptr;
  int64_t offset = 0;  // bytes
};
Result<std::vector<Address>> addresses(Context& c, ValueId pointers, const Layout& layout);

// region.cpp
Result<void> lower_region(Context& c, const dsl::Region& region);
// memory.cpp
Result<void> lower_load(Context& c, const Op& op);
Result<void> lower_store(Context& c, const Op& op);
// reduce.cpp
Result<void> lower_reduce(Context& c, const Op& op);
// dot.cpp
Result<void> lower_dot(Context& c, const Op& op);
// control.cpp
Result<void> lower_for(Context& c, const Op& op);
Result<void> lower_while(Context& c, const Op& op);
Result<void> lower_if(Context& c, const Op& op);

// From the lane whose number differs in these bits; elements of any type.
Value* shuffle_xor(Context& c, Value* x, unsigned lanes);

}  // namespace kiln::codegen::gpu
