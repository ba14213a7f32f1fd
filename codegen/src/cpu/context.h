// What the lowering of one kernel to CPU code shares between its files.
//
// Scheme. One LLVM function runs a range of programs. Within a program, scalars (rank 0) are emitted in program order.
// Tiles are not materialised: a *sink* (store, reduction, copy into scratch) opens a loop nest over its index space,
// and the ops that feed it are evaluated in native vectors at each point of the nest (nest.h, evaluate.cpp). A tile
// lives in scratch memory (a ScratchSlot) only when it must: the operands and results of dots, results of reductions of
// rank 1 and up, loop-carried tiles, expensive values wanted twice, loads that a later store could change.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cpu/parts.h"
#include "cpu/schedule.h"
#include "debug_lines.h"
#include "elementwise/elementwise.h"
#include "kiln/dsl/ir.h"
#include "kiln/dsl/result.h"
#include "passes/pointers.h"
#include "target.h"

namespace kiln::codegen::cpu {

// For each axis of a tile, the dimension of the nest that walks it, or below 0 the one index that it has there: kZero,
// or that of at_index.
using Point = llvm::SmallVector<int8_t, 5>;
inline constexpr int8_t kZero = -1;
constexpr int8_t at_index(int index) { return static_cast<int8_t>(-1 - index); }
constexpr int index_at(int8_t place) { return -1 - place; }

// A mask that holds everywhere in the interior of a nest.
struct MaskAt {
  ValueId mask;
  Point point;
  auto operator<=>(const MaskAt& other) const {
    if (auto order = mask <=> other.mask; order != 0) return order;
    return std::lexicographical_compare_three_way(point.begin(), point.end(), other.point.begin(), other.point.end());
  }
  bool operator==(const MaskAt& other) const { return (*this <=> other) == 0; }
};

// A tile kept in scratch memory, row-major with padding after each row, so that whole vectors may be read and written.
struct ScratchSlot {
  uint64_t offset = 0;           // bytes from the program's scratch
  std::vector<int64_t> strides;  // elements, per axis
  // Nothing behind the last lane of a row may be written: the rows are dense, or part of a larger tile. (Reading is
  // always fine: all of scratch is padded.)
  bool exact = false;
  // The rows are those of an axis before small last ones (narrow.cpp), which lie without gaps: padding follows each
  // row.
  bool close = false;
  // Another value lives here too (a slice, a reshape): never to be updated in place.
  bool view = false;
  // Non-empty: only the interior of a nest with at least these masks holds values.
  std::set<MaskAt> valid_under;
};

// The accumulator of a dot that a loop, or a nest of them, carries from zeros on, see dot_accumulator.cpp. Distances in
// bytes.
struct DotAccumulator {
  Value* fresh = nullptr;     // variable, i1: it is all zeros, whatever its slot holds; null behind the loops
  Value* last = nullptr;      // i1: this iteration of the loops is the last one
  Value* in_place = nullptr;  // i1: the last one may put it where a store wants it, not into its slot; null: never
  Value* stored = nullptr;    // variable, i1: the last iteration did
  Value* pointer = nullptr;
  Value* row = nullptr;
  Value* batch = nullptr;
  Value* rows = nullptr;  // i64: a store takes so many of its rows and nobody sees the others; null: all of them
  bool ends = false;  // if the dot runs at all, it runs in the loops' last iteration too, and nothing is stored before
};

// A tile that a loop carries from a splat on: its slot is empty in the first iteration.
struct InitialSplat {
  Value* later = nullptr;  // i1: this iteration is not the first one
  Value* with = nullptr;   // the element
};

// The innermost `for` whose body is being lowered, and what its index grows by (i64).
struct Iteration {
  const dsl::Region* body = nullptr;
  Value* step = nullptr;
};

// Where code goes, and what the entry has put there for all of it.
struct Entry {
  CpuTarget& target;
  llvm::Module& module;
  Builder ir{module.getContext()};
  llvm::Function* function = nullptr;
  std::unique_ptr<DebugLines> lines = nullptr;  // with the option debug

  Value* launch_context = nullptr;  // kiln_ctx*
  Value* scratch = nullptr;
  std::array<Value*, 3> program_id{};
  std::array<Value*, 3> num_programs{};
  Value* linear_program = nullptr;   // i64: x + gx·(y + gy·z)
  std::vector<Value*> extents = {};  // by parameter: i64, below 0 where unknown; with the option check_bounds only
  Value* opaque_false = nullptr;     // i1: false, though LLVM cannot tell; null where that is not needed
};

// What changes as code is emitted.
struct Emission {
  const dsl::Region* region = nullptr;            // being lowered
  Iteration iteration;                            // without a body: outside of all loops
  Value* trip_count = nullptr;                    // i64: how often a program comes to this place; null: once
  std::vector<Value*> scalars;                    // by value, rank 0 only
  std::vector<std::optional<ScratchSlot>> slots;  // by value
  std::vector<bool> keep;  // by value: into scratch when first evaluated; the schedule's, but in what may not run
  uint64_t scratch_bytes = 0;
  uint64_t scratch_tail = 0;                            // bytes behind all of them that may be read
  std::map<uint64_t, DotAccumulator> dot_accumulators;  // by the offset of the slot
  std::map<ValueId, InitialSplat> initial_splats;       // by the region argument
  std::map<ValueId, int> passes_over;                   // of a load: how many nests have read it
  int cached_operands = 0;                              // dot_cache.cpp
  bool streamed = false;                                // something was stored past the caches (streaming.h)
  std::optional<Pointers> pointers;                     // for checks; absent: not asked yet
  std::vector<const Op*> checks, prints;                // by number, as code names them to the launcher (effects.h)
  Cuts cuts;                                            // where its function may become several
};

// By store: the number of its group.
using Groups = std::map<const Op*, size_t>;
Groups number_groups(const Schedule& schedule);

struct Context : ElementContext, Entry, Emission {
  Context(const dsl::Kernel& k, CpuTarget& t, llvm::Module& m)
      : ElementContext{k, t.cpu, {t.has_fma, t.is_x86 && t.vector_bytes == 64, false}, t.has_f16c, true}, Entry{t, m} {
    saturates_vectors = t.has_avx10_2 || (!t.is_x86 && t.sve_bits <= 128);  // LLVM takes longer ones apart
    least_saturated_bits = t.is_x86 ? 32 : 0;
    orders_nan = t.has_avx10_2;
    keep = schedule.keep;
  }

  // What is known before any code is emitted.
  const Schedule schedule = make_schedule(kernel);
  const Groups groups = number_groups(schedule);

  // What is emitted until the end of the block comes from the op's line.
  AtLine at_line(const Op& op) { return {lines.get(), ir, op.loc}; }
  llvm::ConstantInt* i64(int64_t value) { return ir.getInt64(static_cast<uint64_t>(value)); }
  // The mask (null: all lanes) of a masked load or store. LLVM 22 makes whole loads, for AVX2, of those registers of a
  // longer vector whose lanes it knows to be off; here it cannot know.
  Value* memory_mask(Value* mask);
};

// Reserves scratch for a tile. Rows are padded, or dense: without padding between them, or close: padded, but for small
// last axes, which lie without gaps in rows of the axis before.
enum class Rows : uint8_t { kPadded, kDense, kClose };
ScratchSlot allocate_scratch_slot(Context& ctx, const dsl::Type& type, Rows rows = Rows::kPadded);
Value* scratch_slot_address(Context& ctx, const ScratchSlot& slot);
// The axis of these extents to walk in vectors where the last ones are small, up to eight elements together: a chunk
// has a vector for each of those. Absent where the last axis is the one to walk.
std::optional<size_t> axis_before_narrow(const std::vector<int64_t>& shape);
// The one element of a slot of rank 0, of the type of `id`.
Value* load_from_slot(Context& ctx, ValueId id, const ScratchSlot& slot);
bool is_dense(const ScratchSlot& slot, const std::vector<int64_t>& shape);
// An alloca in the entry block.
Value* entry_alloca(Context& ctx, llvm::Type* type);

// `for (i = start; i < end; i += step) body(i)`; i64 values. Leaves the builder behind the loop.
// `guard` receives the branch that enters the loop: what must run once before it can be inserted there.
void emit_loop(Builder& ir, Value* start, Value* end, Value* step, const char* name,
               llvm::function_ref<void(llvm::Instruction* guard)> enter, llvm::function_ref<void(Value*)> body);
// `if (condition) body()`.
void emit_if(Builder& ir, Value* condition, const char* name, llvm::function_ref<void(llvm::Instruction* guard)> enter,
             llvm::function_ref<void()> body);
// Runs `emit` unless `skip` (i1) holds. What it computes for later nests is not relied on.
Result<void> unless(Context& ctx, Value* skip, llvm::function_ref<Result<void>()> emit);

}  // namespace kiln::codegen::cpu
