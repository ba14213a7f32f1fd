// The trace: where the nodes of a graph go while C++ functions of Tensors run, of an author's graph() or of a pass.
//
// One trace is current per thread (a thread_local pointer: `a + b` has nowhere to pass it); one that is opened within
// another is current until it ends. Nothing here throws or aborts on an author's mistake: the first errors are
// collected with their lines, the op that is wrong gives an invalid Tensor, and ops on invalid Tensors give invalid
// Tensors without another word.
//
// A pass writes its nodes with the functions of tensor.h, functions.h and control.h:
//
//   Trace trace(builder, node.loc);             // nodes go to the builder's innermost open body
//   Tensor x = trace.tensor(value);             // a value of that body
//   ValueId y = (x * sigmoid(x)).id();          // kNoValue after an error
//   if (trace.failed()) return trace.error();
//
// Bodies. What a function traced into a body uses of the bodies around it is *captured*: it becomes an input of the
// body and an operand of the node that runs it.
#pragma once

#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kiln/graph/builder.h"
#include "kiln/graph/tensor.h"

namespace kiln::graph {

class Trace {
 public:
  // Nodes have the source lines of their calls.
  explicit Trace(GraphBuilder& builder);
  // Nodes have this location.
  Trace(GraphBuilder& builder, Location loc);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // The innermost trace of this thread; null where there is none.
  static Trace* current();

  GraphBuilder& builder() { return builder_; }
  const Graph& graph() const { return builder_.graph(); }
  // A value of the innermost open body.
  Tensor tensor(ValueId value) const { return {value, serial_, open_.back().serial}; }
  // Of nodes that follow, in place of C++ source lines.
  void set_location(Location loc) { location_ = loc; }

  // --- errors ---
  bool failed() const { return !errors_.empty(); }
  // All that were collected, a line or more each. There must be one.
  Error error() const;
  void report(const SourceLocation& loc, const std::string& message);
  // Like it, for what has a location of the graph.
  void report(const Location& loc, const std::string& message);

  // --- tensors ---
  // Of an optional operand that is left out.
  static Tensor absent() { return {kNoValue, kAbsent, 0}; }
  static bool is_absent(const Tensor& tensor) { return tensor.trace() == kAbsent; }
  // Whether it may be an operand here: of this trace, of a body that is open. Else an error, and silently for what an
  // earlier error made invalid. `what` begins the message.
  bool usable(const Tensor& tensor, std::string_view what, const SourceLocation& loc);
  // Of a usable one. Borrowed until the next node.
  const TensorType& type(const Tensor& tensor) const { return graph().types[type_id(tensor)]; }
  TypeId type_id(const Tensor& tensor) const;
  // Whether type() may be asked.
  bool knows(const Tensor& tensor) const { return tensor.valid() && tensor.trace() == serial_ && level(tensor.body()); }
  // The number of a usable one in the innermost open body; captures it.
  ValueId resolve(const Tensor& tensor, const SourceLocation& loc);
  std::string text(const Tensor& tensor) const { return to_string(type(tensor), graph().expr_names()); }
  std::string text(const Expr& expr) const { return dsl::to_string(expr, graph().expr_names()); }

  // --- extents ---
  // Over the graph's dims, which it declares. None after an error.
  std::optional<Expr> expr(const Dim& dim, std::string_view what, const SourceLocation& loc);
  std::optional<std::vector<Expr>> exprs(const Shape& shape, std::string_view what, const SourceLocation& loc);
  // The other way round, with the dims that it mentions.
  Dim dim(const Expr& expr) const;

  // --- nodes ---
  // Attributes left out at the end take their defaults. Empty after an error.
  std::vector<Tensor> emit_all(TensorOp op, std::span<const Tensor> operands, AttrList attrs,
                               const SourceLocation& loc);
  // Of an op of one result: it, or an invalid Tensor.
  Tensor emit(TensorOp op, std::span<const Tensor> operands, AttrList attrs, const SourceLocation& loc);

  // --- bodies ---
  enum class Outside : uint8_t { kCaptured, kRefused };
  // Nodes go to the new body until it is closed or abandoned. `what` names the op for people.
  void open_body(std::string what, std::string name, const SourceLocation& loc, Outside outside = Outside::kCaptured);
  // Of the innermost body, in front of what it captures.
  Tensor add_input(std::string name, const TensorType& type, const SourceLocation& loc);
  struct ClosedBody {
    BodyId id = kNone;
    std::vector<Tensor> captured;  // of the body around it, in the order of the inputs
  };
  // Ends the innermost one. None, with the body abandoned, when an output is not usable there.
  std::optional<ClosedBody> close_body(std::span<const Tensor> outputs, const SourceLocation& loc);
  void abandon_body();
  // The body captures these tensors of the innermost open one too, behind the others.
  void capture_also(ClosedBody& body, std::span<const Tensor> tensors, const SourceLocation& loc);
  size_t depth() const { return open_.size(); }

  // While one lives, all nodes and errors have its line: that of the call of a function made of several ops.
  class LineScope {
   public:
    explicit LineScope(const SourceLocation& loc);
    ~LineScope();
    LineScope(const LineScope&) = delete;
    LineScope& operator=(const LineScope&) = delete;

   private:
    Trace* trace_;  // null when an outer scope is in force
  };

 private:
  static constexpr uint64_t kAbsent = ~uint64_t{0};

  struct OpenBody {
    uint32_t serial;
    BodyId id;
    Outside outside;
    std::vector<Tensor> captured;                    // of the body around
    std::unordered_map<ValueId, ValueId> by_number;  // number there → number here
  };
  struct BodyNote {
    std::string what;                  // "loop"
    std::optional<Location> location;  // of the graph, or a source line
    SourceLocation line;
  };

  // The place of an open body in open_, plus one; 0 when it is none of them.
  size_t level(uint32_t body) const;
  std::string place_text(const BodyNote& note) const;  // "FILE:LINE:COLUMN"
  const Body& body(size_t level) const { return graph().bodies[open_[level - 1].id]; }
  Location place(const SourceLocation& loc);
  std::optional<GraphBuilder::Results> add(TensorOp op, std::span<const Tensor> operands, AttrList attrs,
                                           const SourceLocation& loc);
  ValueId capture(OpenBody& open, const Body& around, ValueId number, const Location& loc);
  std::string name_in(const Body& body, ValueId value) const;

  GraphBuilder& builder_;
  uint64_t serial_;
  std::vector<OpenBody> open_;
  std::vector<BodyNote> notes_;  // of all bodies, by serial
  std::vector<std::string> errors_;
  std::optional<Location> location_;
  std::optional<SourceLocation> line_;
  const char* file_ = nullptr;  // of the last location
  uint32_t file_number_ = 0;
  std::vector<ValueId> numbers_;  // of the node that is emitted
  Trace* outer_;
};

}  // namespace kiln::graph
