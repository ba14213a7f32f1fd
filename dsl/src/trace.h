// The trace: where the ops of a kernel go while its C++ function runs.
//
// One trace is current per thread (a thread_local pointer: an author's `a + b` has nowhere to pass it). Nothing here
// throws or aborts on an author's mistake: the first errors are collected with their lines, the op that is wrong gives
// an invalid Value, and ops on invalid Values give invalid Values without another word.
//
// Loops. An open loop collects ops of its own. A variable is a slot that holds a current value. The first touch inside
// an open loop makes it an argument of the loop's region; closing the loop yields what the slot holds then. Arguments
// that are yielded unchanged were only read: they are dropped and their uses take the value from outside.
#pragma once

#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "kiln/dsl/builder.h"

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
    uint32_t region = 0;           // serial of the loop that defines it; 0: the kernel's body
    std::optional<Expr> launcher;  // its value as far as a launcher can compute it
    bool readonly = false;         // a pointer derived from a Ptr<const T>
  };
  Value add_value(Type type, std::string name = {});
  const Type& type(const Value& value) const { return kernel_.values[value.id()].type; }
  Fact& fact(const Value& value) { return facts_[value.id()]; }
  // False for values of another trace, of a closed loop, or of none, with an error; and, silently, for what an earlier
  // error made invalid.
  bool usable(const Value& value, const std::source_location& loc);
  // Appends an op; attributes left out at the end take their defaults. Empty when something is wrong.
  std::vector<Value> emit_all(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs,
                              const std::source_location& loc, std::vector<Region> regions = {});
  // Of an op of at most one result: it, or an invalid Value.
  Value emit(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs, const std::source_location& loc);

  // --- loops ---
  // The loop's index; bounds are start, end, step of one int type.
  Value open_loop(const std::vector<Value>& bounds, Expr stages, const std::source_location& loc);
  void close_loop();
  // Forgets the innermost loop after the author left its body in the middle.
  void abandon_loop();

  // --- variables ---
  uint32_t add_slot(const Value& init);
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

 private:
  struct Carried {
    uint32_t slot;
    ValueId init;
    ValueId arg;
  };
  struct OpenLoop {
    uint32_t serial;
    Region region;
    std::vector<ValueId> bounds;
    Expr stages;
    std::source_location loc;
    std::vector<Carried> carried;
  };
  struct Slot {
    ValueId now;
    size_t depth;  // open loops when it was made
  };

  std::vector<Op>& ops() { return loops_.empty() ? kernel_.body.ops : loops_.back().region.ops; }
  Location intern(const std::source_location& loc);
  void derive_fact(OpCode code, const std::vector<Value>& operands, Value result);
  void carry(uint32_t slot);
  bool is_open(uint32_t region) const;
  std::string text(ValueId id) const { return to_string(kernel_.values[id].type, kernel_.expr_names()); }

  Kernel kernel_;
  std::vector<Fact> facts_;  // by ValueId
  std::vector<OpenLoop> loops_;
  std::vector<Slot> slots_;
  std::vector<std::string> errors_;
  std::source_location loc_;
  std::optional<std::source_location> scope_;
  uint64_t serial_;
  uint32_t next_region_ = 1;
  bool has_grid_ = false;
  Trace* outer_;
};

// --- shared by the builder's files ------------------------------------------------------------------------------

// Emits into the current trace; invalid without one.
Value emit(OpCode code, const std::vector<Value>& operands, std::vector<Attr> attrs, const std::source_location& loc);
void report(const std::source_location& loc, const std::string& message);
std::string type_text(const Type& type);
std::string expr_text(const Expr& expr);

// A number or Const as a scalar of the type; an error when it is not one of its values.
Value constant(const Operand& number, ElementType type, const std::source_location& loc);
// A value as it is, a number with the type that it has on its own: i32 (i64 where it must be), f32 or f64.
Value materialise(const Operand& operand);
// Operands cast to their common element type, numbers included. `what` begins error messages. Empty after an error.
std::vector<Value> promote(const std::vector<Operand>& operands, const std::string& what);
// Values brought to their common shape. Empty after an error.
std::vector<Value> broadcast_all(std::vector<Value> values, const std::string& what, const std::source_location& loc);
// A value brought to a shape; an error when it does not broadcast to it.
Value broadcast_value(const Value& value, const std::vector<Expr>& shape, const std::string& what,
                      const std::source_location& loc);
std::vector<Expr> exprs(const Shape& shape);
// An axis that may count from the end; `count` is the number of axes. No value after an error.
std::optional<int64_t> resolve_axis(int axis, int count, const std::string& what, const std::source_location& loc);

}  // namespace kiln::dsl::lang
