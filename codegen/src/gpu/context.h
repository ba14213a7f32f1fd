// What the lowering of one kernel to GPU code shares between its files.
//
// Scheme. A program is a block of threads. Ops are lowered in program order; a tile is a list of registers, one LLVM
// scalar for each element that a thread holds in the tile's layout. Scalars (rank 0) are tiles of one register that all
// threads have alike, so control flow is uniform in a block. A value without a home (placement.h) is emitted when some
// op asks for it, in the layout asked for.
#pragma once

#include <llvm/IR/Module.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "debug_lines.h"
#include "elementwise/elementwise.h"
#include "gpu/analysis/global_order.h"
#include "gpu/analysis/linear_index.h"
#include "gpu/block/shape.h"
#include "gpu/pipeline/bulk_copy.h"
#include "gpu/placement.h"
#include "gpu/shared/shared_memory.h"
#include "gpu/shared/shared_panels.h"
#include "gpu/target_info.h"
#include "kiln/dsl/result.h"
#include "kiln/dsl/uses.h"

namespace kiln::codegen::gpu {

// Of one thread, by register number of the layout.
using Registers = std::vector<Value*>;

// A tile in shared memory, where every thread finds what it wants of it.
struct SharedTile {
  SharedPanels panels;
  SharedBuffer buffer;
  Value* base;         // the buffer, or a part of it
  int read_phase = 1;  // of the marks of reads
};

// The buffers of a pipelined loop, by staged load, and barriers that say when a stage is full, and when all have left
// it (stages.h).
struct MultiBuffers {
  std::vector<SharedBuffer> buffers;
  std::optional<SharedBuffer> full, free;
  std::optional<SharedBuffer> right_to_multiply;  // by consumer group
};

// Numbers of programs, on their way from the thread that copies to the warps of the program (program_queue.h), and
// barriers that say when a place has one, and when all have taken it.
struct ProgramQueue {
  SharedBuffer numbers, full, free;
};

// What products read in all iterations of a persistent block's loop (program_operands.h), and barriers that say when it
// is there, and when all have done with it.
struct OperandPlaces {
  std::vector<SharedBuffer> tiles;
  SharedBuffer full, free;
};

class EarlyLoads;
class TensorMemory;

// A region that is being lowered, and what has been computed of its values.
struct Scope {
  const dsl::Region* region = nullptr;
  // Where more code of this scope goes while an inner one is lowered: before this. Null: where the builder stands.
  llvm::Instruction* before = nullptr;
  // Whether the iteration exists that is lowered ahead. Null: it does.
  Value* enabled = nullptr;
  std::map<std::pair<ValueId, size_t>, Registers> computed;                // by value and number of the layout
  std::map<std::pair<ValueId, size_t>, std::function<Registers()>> begun;  // conversions whose ends are read again
  std::multimap<ValueId, SharedTile> shared;
};

// What is decided before any code is emitted.
struct Decisions {
  Decisions(const ShapedKernel& shaped, const TargetInfo& of);

  const TargetInfo& target;
  const Placement& placement;
  const BlockShape block;
  const Effort effort;
  const std::vector<const Op*> definition;    // by value; null for parameters and region arguments
  const std::vector<AxisInfo>& info;          // by value
  const BulkAccesses bulk;                    // accesses that the bulk engine makes
  const std::set<const Op*> constant_loads;   // constant_loads.h
  const std::set<const Op*> plain_divisions;  // plain_divisions.h
};

// Where code goes, and what the entry has put there for all of it.
struct Entry {
  llvm::Module& module;
  Builder ir{module.getContext()};
  llvm::Function* function = nullptr;
  // What comes before this, in the entry block, dominates the whole kernel.
  llvm::Instruction* prologue_end = nullptr;
  std::unique_ptr<DebugLines> lines = nullptr;  // with the option debug

  Value* lane = nullptr;
  Value* warp = nullptr;                        // of the program's
  Value* thread = nullptr;                      // of the program's
  llvm::Instruction* consumer_group = nullptr;  // of the block's; null: it has one
  std::array<Value*, 3> program_id{}, num_programs{};
  std::vector<Value*> tensor_maps = {};  // by number
  // What a launch gives beyond the kernel's parameters (docs/reference/artifact.md); null where the kernel needs it
  // not.
  Value* failure_record = nullptr;
  std::vector<Value*> extents = {};  // by parameter: elements behind a pointer
  Value* print_ring = nullptr;
  Value* program_counter = nullptr;
};

// What changes as code is emitted.
struct Emission {
  LinearForms forms;                                     // of indices, with their AxisInfo; found as they are asked for
  GlobalOrder order;                                     // of accesses to global memory
  std::set<const Op*> rolled_loads = {};                 // loads that wait for their product (rolled.h)
  EarlyLoads* early_loads = nullptr;                     // of the loop that is being lowered (early_loads.h)
  std::map<const Op*, MultiBuffers> multi_buffers = {};  // of loops whose stages producer warps fill
  std::optional<ProgramQueue> queue = {};                // where blocks share one
  std::optional<OperandPlaces> program_operands = {};
  TensorMemory* tensor_memory = nullptr;            // where products sum up in it
  std::vector<const Op*> checks = {}, prints = {};  // what code names by number
};

class Context : public ElementContext, public Decisions, public Entry, public Emission {
 public:
  Context(const ShapedKernel& shaped, const TargetInfo& target, llvm::Module& module, const std::string& processor);

  Value* tensor_map(const Op& op) const { return tensor_maps[bulk.at(&op).map]; }

  // The registers of a value in a layout: as they are, converted, or computed.
  Result<Registers> get(ValueId id, const Layout& layout);
  // The registers of a value in its home.
  Result<Registers> get(ValueId id) { return get(id, *placement.home[id]); }
  // What reads the registers, each time that it is called, from where a conversion has put them in shared memory.
  Result<std::function<Registers()>> get_later(ValueId id, const Layout& layout);
  Value* scalar(ValueId id);
  // What an op has computed, in the value's home.
  void define(ValueId id, Registers registers) { define(id, *placement.home[id], std::move(registers)); }
  void define(ValueId id, const Layout& layout, Registers registers);

  // Moves the builder to where more code of the value's scope goes.
  void stand_where_defined(ValueId id);
  // A value's tile in shared memory, the one whose lines run along `fast` if that is said; or null.
  const SharedTile* shared(ValueId id, std::optional<int> fast = std::nullopt);
  void define_shared(ValueId id, SharedTile tile);

  // Sums that products of several warps may still be writing (target_info.h), oldest first. get() waits for them.
  // `groups`: in how many they are.
  void add_pending(ValueId id, int groups = 1) { pending_.push_back({id, groups}); }
  bool is_pending(ValueId id) const;
  // The groups that began behind `id`, or all.
  int pending_groups(std::optional<ValueId> id = std::nullopt) const;
  // As they are in the value's home; nobody but another product, or the next iteration, may have them.
  Registers take_pending(ValueId id);
  void wait_for_all();
  // What accumulators are once so many groups of products at most are under way: those of `id`.
  Registers wait_for_products(int groups, ValueId id, Registers accumulators);
  void wait_for_groups(int groups);
  // What a loop says of sums that only its next iteration wants.
  void let_run_on(ValueId id) { may_run_on_.insert(id); }
  bool may_leave_pending(ValueId id) const { return may_run_on_.contains(id); }

  int uses(ValueId id) const { return static_cast<int>(def_use_.uses(id)); }
  const dsl::Region* region_of(ValueId id) const { return def_use_.region(id); }
  const dsl::Region* current_region() const { return scopes_.back().region; }

  // Regions inside each other. While the inner one is lowered, what it needs of outer values goes before `guard`.
  void enter(const dsl::Region& region, llvm::Instruction* guard, Value* enabled = nullptr);
  void leave();
  // Of loads that are lowered ahead: null, or whether their iteration exists.
  Value* enabled(ValueId id) { return scope_of(id).enabled; }
  // What has been computed of the innermost region's values, and back to that.
  Scope scope() const { return scopes_.back(); }
  void restore(Scope scope) { scopes_.back() = std::move(scope); }

  // One iteration of a loop whose threads are those of further warps (rolled.h): what is computed in it stands in it,
  // and is of this iteration alone. `head` ends the block before. end_iteration() takes what begin_iteration() gave.
  struct Iteration {
    Value* warp;
    llvm::Instruction* prologue_end;
    std::vector<Scope> scopes;
    std::map<std::pair<size_t, int>, Value*> thread_coordinates;
    EarlyLoads* early_loads;
  };
  Iteration begin_iteration(Value* warp, llvm::Instruction* head);
  void end_iteration(Iteration outside);

  // The coordinate along an axis of the element in a register, i32.
  Value* coordinate(const Layout& layout, size_t reg, int axis);
  // Whether the register's element lies in the tile, which its layout pads to powers of two: null for always.
  Value* in_tile(const Layout& layout, size_t reg, const dsl::Type& type);
  Value* in_tile(const Layout& layout, size_t reg, const std::vector<int64_t>& extents);
  // Of each register whether it is padding in every thread, and no instruction computes it along with the tile's edge:
  // such registers are zeros.
  std::vector<bool> padding(const Layout& layout, const dsl::Type& type) const;
  // The row-major number of the register's element in a tile, i32.
  Value* element_number(const Layout& layout, size_t reg, const dsl::Type& type);
  // A layout in which a value is at hand, or cheap.
  Layout layout_at_hand(ValueId id) const;
  // The part of a layout's element that lane and warp make up, along an axis, and that of the register.
  Value* thread_coordinate(const Layout& layout, int axis);
  int64_t register_coordinate(const Layout& layout, size_t reg, int axis) const;

 private:
  Scope& scope_of(ValueId id);
  void wait_for(ValueId id);
  size_t number_of(const Layout& layout);

  std::vector<Scope> scopes_;
  const dsl::DefUse def_use_;
  struct PendingProduct {
    ValueId id;
    int groups;
  };
  std::vector<PendingProduct> pending_;
  std::set<ValueId> may_run_on_;
  std::vector<Layout> layouts_;
  std::map<std::pair<size_t, int>, Value*> thread_coordinates_;
};

}  // namespace kiln::codegen::gpu
