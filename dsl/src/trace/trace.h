// The trace: where the ops of a kernel go while its C++ function runs.
//
// One trace is current per thread (a thread_local pointer: an author's `a + b` has nowhere to pass it). Nothing here
// throws or aborts on an author's mistake: the first errors are collected with their lines, the op that is wrong gives
// an invalid Value, and ops on invalid Values give invalid Values without another word.
//
// Regions. An open region collects ops of its own. A variable is a slot that holds a current value; each open region
// notes what a slot of outside held when it was first touched within. A region that is closed gives the slots these
// values back, and the op that is made of it then assigns its results:
//
//   for, while   the first touch makes the slot an argument of the region; what the slot holds at the end is the next
//                value. Arguments that end unchanged were only read: they are dropped, and their uses take the value
//                from outside.
//   if           a slot that either branch leaves changed is a result, which both branches yield.
//   combine      (the function of a reduction) and the condition of a `while` may read variables, not assign them.
//
// Slots are taken in the order of their declaration: that of the first touch depends on how a host compiler evaluates
// operands.
#pragma once

#include <optional>
#include <source_location>
#include <string>
#include <unordered_set>
#include <vector>

#include "kiln/dsl/builder.h"
#include "trace/stated_arrays.h"

namespace kiln::dsl::lang {

class Trace {
 public:
  Trace(std::string name, std::source_location loc);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // The innermost trace of this thread; null outside of a kernel function.
  static Trace* current();

  uint64_t serial() const { return serial_; }
  Kernel& kernel() { return kernel_; }
  const std::source_location& loc() const { return loc_; }
  const std::source_location& last_loc() const { return last_loc_; }  // of the last op; of the kernel before that
  void add_constraint(Condition condition) { kernel_.constraints.push_back(std::move(condition)); }
  bool has_grid() const { return has_grid_; }
  void set_grid(const std::array<Expr, 3>& grid) {
    kernel_.grid = grid;
    has_grid_ = true;
  }

  // --- errors ---
  void report(const std::source_location& loc, const std::string& message);
  bool failed() const { return !errors_.empty(); }
  // The kernel without values that nothing defines, or the collected errors.
  Result<Kernel> finish();

  // --- values and ops ---
  // What the tracer knows about a value beside its type.
  struct Fact {
    uint32_t region = 0;           // serial of the region that defines it; 0: the kernel's body
    std::optional<Expr> launcher;  // its value as far as a launcher can compute it
    bool readonly = false;         // a pointer derived from a Ptr<const T>
  };
  Value add_value(Type type, std::string name = {});
  const Type& type(const Value& value) const { return kernel_.values[value.id()].type; }
  Fact& fact(const Value& value) { return facts_[value.id()]; }
  // False for values of another trace, of a closed region, or of none, with an error; and, silently, for what an
  // earlier error made invalid.
  bool usable(const Value& value, const std::source_location& loc);
  // Appends an op; attributes left out at the end take their defaults. Empty when something is wrong.
  std::vector<Value> emit_all(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs,
                              const std::source_location& loc, std::vector<Region> regions = {});
  // Of an op of at most one result: it, or an invalid Value.
  Value emit(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs, const std::source_location& loc);

  // --- regions ---
  enum class RegionKind : uint8_t { kLoop, kCondition, kBody, kBranch, kCombine };  // kCondition, kBody: of a `while`
  struct Touched {
    uint32_t slot;
    ValueId before;            // outside
    ValueId inside;            // at the start of the region: an argument of a loop; else as before
    ValueId after = kNoValue;  // at its end; known when it is closed
    bool changed() const { return after != inside; }
  };
  struct TracedRegion {
    RegionKind kind;
    uint32_t serial;
    Region region;
    std::vector<Touched> touched;        // by slot once it is closed
    std::unordered_set<uint32_t> slots;  // of `touched`
  };
  // Ops go to the new region until it is closed.
  void open(RegionKind kind);
  // Of the innermost region, in front of those that carry variables.
  Value add_argument(Type type);
  TracedRegion close();
  // Goes on where the region was closed.
  void reopen(TracedRegion region);
  // Forgets the innermost region after the author left it in the middle.
  void abandon() { close(); }
  size_t depth() const { return open_.size(); }

  // The ops of closed regions; variables take their results.
  void add_for(const std::vector<Value>& bounds, const Expr& stages, TracedRegion body,
               const std::source_location& loc);
  void add_while(TracedRegion condition, const Value& goes_on, TracedRegion body, const std::source_location& loc);
  // What the branches give beside the variables they change, of equal types.
  struct Branch {
    TracedRegion region;
    std::vector<Value> values;
  };
  std::vector<Value> add_combine(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs,
                                 TracedRegion function, const std::vector<Value>& yields,
                                 const std::source_location& loc);
  std::vector<Value> add_if(const Value& condition, Branch then, Branch otherwise, const std::source_location& loc);

  // --- variables ---
  uint32_t add_slot(const Value& init, const std::source_location& loc);
  Value read_slot(uint32_t slot);
  void write_slot(uint32_t slot, const Value& value, const std::source_location& loc);

  // While one lives, all ops are attributed to its line: that of the call of a library function.
  class LocationScope {
   public:
    explicit LocationScope(const std::source_location& loc);
    ~LocationScope();
    LocationScope(const LocationScope&) = delete;
    LocationScope& operator=(const LocationScope&) = delete;

   private:
    Trace* trace_;  // null when an outer scope is in force
  };

  // --- sizes of arrays ---
  StatedArrays& stated_arrays() { return arrays_; }
  // While one lives, ops are those of a tile or descriptor, whose array is stated.
  class StatedScope {
   public:
    StatedScope() : trace_(Trace::current()) {
      if (trace_) ++trace_->stated_depth_;
    }
    ~StatedScope() {
      if (trace_) --trace_->stated_depth_;
    }
    StatedScope(const StatedScope&) = delete;
    StatedScope& operator=(const StatedScope&) = delete;

   private:
    Trace* trace_;
  };

 private:
  struct Slot {
    ValueId now;
    size_t depth;  // open regions when it was made
    std::source_location loc;
  };

  std::vector<Op>& ops() { return open_.empty() ? kernel_.body.ops : open_.back().region.ops; }
  Location intern(const std::source_location& loc);
  void derive_fact(const Op& op, const std::vector<Value>& operands, Value result);
  void touch(uint32_t slot);
  bool is_open(uint32_t region) const;
  bool fits_region(OpCode code, const std::source_location& loc);
  // Ends a region with a yield.
  void add_yield(TracedRegion& region, const std::vector<ValueId>& values, const std::source_location& loc);
  // The variables that a loop's body leaves changed.
  struct Carried {
    std::vector<Touched> variables;
    std::vector<uint32_t> slots;
    std::vector<Value> inits;
    std::vector<ValueId> next;
  };
  Carried carried_by(const TracedRegion& body);
  // Gives a region an argument for each variable that its loop carries; others come from outside.
  void carry(TracedRegion& region, const std::vector<Touched>& carried);
  // Emits an op of regions; the variables take its last results. Gives the results in front of them.
  std::vector<Value> add_region_op(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs,
                                   std::vector<Region> regions, const std::vector<uint32_t>& slots,
                                   const std::source_location& loc);
  std::string text(ValueId id) const { return to_string(kernel_.values[id].type, kernel_.expr_names()); }

  Kernel kernel_;
  std::vector<Fact> facts_;  // by ValueId
  std::vector<TracedRegion> open_;
  std::vector<RegionKind> kinds_;  // of all regions, by serial - 1
  std::vector<Slot> slots_;
  std::vector<std::string> errors_;
  std::source_location loc_, last_loc_;
  std::optional<std::source_location> scope_;
  uint64_t serial_;
  bool has_grid_ = false;
  StatedArrays arrays_;
  int stated_depth_ = 0;
  Trace* outer_;
};

// --- shared by the builder's files ------------------------------------------------------------------------------

// Emits into the current trace; nothing, or an invalid Value, without one.
std::vector<Value> emit_all(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs,
                            const std::source_location& loc);
Value emit(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs, const std::source_location& loc);
void report(const std::source_location& loc, const std::string& message);
std::string type_text(const Type& type);
std::string expr_text(const Expr& expr);

// A number or Const as a scalar of the type; an error when it is not one of its values.
Value constant(const Operand& number, ElementType type, const std::source_location& loc);
// A value as it is, a number with the type that it has on its own: i32 (i64 where it must be), f32 or f64.
Value materialise(const Operand& operand);
std::vector<Value> materialise_all(const std::vector<Operand>& operands);  // empty after an error
// A value as it is, a number as a scalar of the type.
Value as_value(const Operand& operand, ElementType type);
bool is_pointer(const Operand& operand);
// The element type that operands have in common. None after an error; `what` begins its message.
std::optional<ElementType> common_type(const std::vector<Operand>& operands, const std::string& what,
                                       const std::source_location& loc);
// Operands cast to their common element type, numbers included. Empty after an error.
std::vector<Value> promote(const std::vector<Operand>& operands, const std::string& what);
// Like promote, but of pointers too, as they are.
std::vector<Value> promote_or_pointers(const std::vector<Operand>& operands, const std::string& what);
// Notes how large the array behind `base` is, where launchers can compute that. Without strides it is contiguous.
void state_array(const Value& base, const std::vector<Operand>& extents, const std::vector<Operand>& strides);
// The shape that shapes broadcast to; extents that only some configs make equal count as equal.
std::optional<std::vector<Expr>> common_shape(const std::vector<Type>& types, const std::string& what,
                                              const std::source_location& loc);
// Values brought to their common shape. Empty after an error.
std::vector<Value> broadcast_all(std::vector<Value> values, const std::string& what, const std::source_location& loc);
// A value brought to a shape; an error when it does not broadcast to it.
Value broadcast_value(const Value& value, const std::vector<Expr>& shape, const std::string& what,
                      const std::source_location& loc);
// An elementwise op on promoted and broadcast operands.
Value elementwise(OpCode code, const std::vector<Operand>& operands, std::vector<Attr> attrs = {});
std::vector<Expr> exprs(const Shape& shape);
// An axis that may count from the end; `count` is the number of axes. No value after an error.
std::optional<int64_t> resolve_axis(int axis, int count, const std::string& what, const std::source_location& loc);

}  // namespace kiln::dsl::lang
