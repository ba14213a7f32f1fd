#include "trace/trace.h"

#include <algorithm>
#include <atomic>

#include "ir/renumber.h"

namespace kiln::graph {
namespace {

thread_local Trace* g_current = nullptr;

constexpr size_t kMaxErrors = 20;

}  // namespace

Trace::Trace(GraphBuilder& builder) : builder_(builder), outer_(g_current) {
  static std::atomic<uint64_t> next_serial{1};
  serial_ = next_serial++;
  const auto id = static_cast<BodyId>(&builder.body() - builder.graph().bodies.data());
  open_.push_back({0, id, Outside::kRefused, {}, {}});
  notes_.push_back({});
  g_current = this;
}

Trace::Trace(GraphBuilder& builder, Location loc) : Trace(builder) { location_ = loc; }

Trace::~Trace() { g_current = outer_; }

Trace* Trace::current() { return g_current; }

// --- errors ---

Error Trace::error() const {
  std::string message;
  for (const std::string& text : errors_) message += (message.empty() ? "" : "\n") + text;
  return kiln::error(ErrorCode::kVerifyFailed, message);
}

void Trace::report(const Location& loc, const std::string& message) {
  if (errors_.size() >= kMaxErrors) return;
  const std::string where = graph().location_text(loc);
  errors_.push_back(where.empty() ? message : where + ": " + message);
}

void Trace::report(const SourceLocation& loc, const std::string& message) { report(place(loc), message); }

Location Trace::place(const SourceLocation& loc) {
  if (location_) return *location_;
  const SourceLocation& line = line_ ? *line_ : loc;
  if (line.line() == 0) return {};
  if (line.file_name() != file_) {
    file_ = line.file_name();
    file_number_ = builder_.add_file(file_);
  }
  return {file_number_, line.line(), line.column()};
}

Trace::LineScope::LineScope(const SourceLocation& loc) : trace_(Trace::current()) {
  if (trace_ && trace_->line_) trace_ = nullptr;
  if (trace_) trace_->line_ = loc;
}

Trace::LineScope::~LineScope() {
  if (trace_) trace_->line_.reset();
}

std::string Trace::place_text(const BodyNote& note) const {
  if (note.location) return graph().location_text(*note.location);
  const SourceLocation& line = note.line;
  return std::string(line.file_name()) + ":" + std::to_string(line.line()) + ":" + std::to_string(line.column());
}

// --- tensors ---

size_t Trace::level(uint32_t body) const {
  for (size_t i = open_.size(); i > 0; --i) {
    if (open_[i - 1].serial == body) return i;
  }
  return 0;
}

TypeId Trace::type_id(const Tensor& tensor) const { return body(level(tensor.body())).values[tensor.id()].type; }

bool Trace::usable(const Tensor& tensor, std::string_view what, const SourceLocation& loc) {
  if (!tensor.valid()) {
    // After an error invalid tensors are its echo; without one the author forgot something.
    if (!failed()) {
      report(loc, std::string(what) +
                      ": a Tensor without a value; it was never assigned, left out, or made outside graph()");
    }
    return false;
  }
  if (tensor.trace() != serial_) {
    report(loc, std::string(what) + ": a tensor of another graph");
    return false;
  }
  const size_t made = level(tensor.body());
  if (made == 0) {
    const BodyNote& note = notes_[tensor.body()];
    report(loc, std::string(what) + ": a tensor made inside the " + note.what + " at " + place_text(note) +
                    " is used outside of it; let its function return it");
    return false;
  }
  for (size_t i = made; i < open_.size(); ++i) {
    if (open_[i].outside == Outside::kCaptured) continue;
    report(loc, std::string(what) + ": a tensor from outside of the " + notes_[open_[i].serial].what +
                    ", whose function sees nothing but what it is given");
    return false;
  }
  return true;
}

std::string Trace::name_in(const Body& body, ValueId value) const {
  if (body.values[value].node == kNone) {
    // Inputs come first, but for captures of bodies that are open.
    if (value < body.inputs.size() && body.inputs[value].value == value) return body.inputs[value].name;
    for (const Input& input : body.inputs) {
      if (input.value == value) return input.name;
    }
  }
  const auto named = body.names.find(value);
  return named == body.names.end() ? "outside" : named->second;
}

ValueId Trace::capture(OpenBody& open, const Body& around, ValueId number, const Location& loc) {
  const auto known = open.by_number.find(number);
  if (known != open.by_number.end()) return known->second;
  const ValueId here = builder_.add_capture(open.id, {name_in(around, number), around.values[number].type, loc});
  open.by_number.emplace(number, here);
  open.captured.emplace_back(number, serial_, open_[static_cast<size_t>(&open - open_.data()) - 1].serial);
  return here;
}

ValueId Trace::resolve(const Tensor& tensor, const SourceLocation& loc) {
  ValueId number = tensor.id();
  if (tensor.body() == open_.back().serial) return number;
  for (size_t i = level(tensor.body()); i < open_.size(); ++i) number = capture(open_[i], body(i), number, place(loc));
  return number;
}

// --- extents ---

std::optional<Expr> Trace::expr(const Dim& dim, std::string_view what, const SourceLocation& loc) {
  if (dim.expr().as_constant()) return dim.expr();
  std::vector<uint32_t> numbers;
  bool same = true;
  for (const DimInfo& symbol : dim.symbols()) {
    auto number = builder_.add_dim(symbol);
    if (!number) {
      report(loc, std::string(what) + ": " + number.error().message);
      return std::nullopt;
    }
    same = same && *number == numbers.size();
    numbers.push_back(*number);
  }
  return same ? dim.expr() : renumber(dim.expr(), numbers);
}

std::optional<std::vector<Expr>> Trace::exprs(const Shape& shape, std::string_view what, const SourceLocation& loc) {
  std::vector<Expr> out;
  out.reserve(shape.size());
  for (const Dim& extent : shape) {
    auto each = expr(extent, what, loc);
    if (!each) return std::nullopt;
    out.push_back(std::move(*each));
  }
  return out;
}

Dim Trace::dim(const Expr& expr) const {
  if (expr.as_constant()) return {expr, {}};
  const std::vector<bool> used = used_dims(expr, graph().dims.size());
  std::vector<uint32_t> numbers(used.size());
  std::vector<DimInfo> symbols;
  for (size_t i = 0; i < used.size(); ++i) {
    numbers[i] = static_cast<uint32_t>(symbols.size());
    if (used[i]) symbols.push_back(graph().dims[i]);
  }
  return {renumber(expr, numbers), std::move(symbols)};
}

// --- nodes ---

std::optional<GraphBuilder::Results> Trace::add(TensorOp op, std::span<const Tensor> operands, AttrList attrs,
                                                const SourceLocation& loc) {
  const std::string& name = info(op).name;
  for (const Tensor& operand : operands) {
    if (!is_absent(operand) && !usable(operand, name, loc)) return std::nullopt;
  }
  numbers_.clear();
  for (const Tensor& operand : operands) {
    numbers_.push_back(is_absent(operand) ? kNoValue : resolve(operand, loc));
  }
  auto results = builder_.add(op, numbers_, std::move(attrs), place(loc));
  if (results) return *results;
  report(loc, results.error().message);
  return std::nullopt;
}

std::vector<Tensor> Trace::emit_all(TensorOp op, std::span<const Tensor> operands, AttrList attrs,
                                    const SourceLocation& loc) {
  const auto results = add(op, operands, std::move(attrs), loc);
  std::vector<Tensor> out;
  for (uint32_t i = 0; results && i < results->count; ++i) out.push_back(tensor(results->first + i));
  return out;
}

Tensor Trace::emit(TensorOp op, std::span<const Tensor> operands, AttrList attrs, const SourceLocation& loc) {
  const auto results = add(op, operands, std::move(attrs), loc);
  return results ? tensor(results->first) : Tensor();
}

// --- bodies ---

void Trace::open_body(std::string what, std::string name, const SourceLocation& loc, Outside outside) {
  builder_.open_body(std::move(name));
  const auto id = static_cast<BodyId>(&builder_.body() - graph().bodies.data());
  open_.push_back({static_cast<uint32_t>(notes_.size()), id, outside, {}, {}});
  notes_.push_back({std::move(what), location_, line_ ? *line_ : loc});
}

Tensor Trace::add_input(std::string name, const TensorType& type, const SourceLocation& loc) {
  auto value = builder_.add_input(std::move(name), type, place(loc));
  if (value) return tensor(*value);
  report(loc, value.error().message);
  return {};
}

std::optional<Trace::ClosedBody> Trace::close_body(std::span<const Tensor> outputs, const SourceLocation& loc) {
  const std::string what = notes_[open_.back().serial].what;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!usable(outputs[i], what, loc)) {
      abandon_body();
      return std::nullopt;
    }
    auto added = builder_.add_output("y" + std::to_string(i), resolve(outputs[i], loc));
    if (!added) report(loc, what + ": " + added.error().message);
  }
  ClosedBody out{open_.back().id, std::move(open_.back().captured)};
  abandon_body();
  return out;
}

void Trace::abandon_body() {
  builder_.close_body();
  open_.pop_back();
}

void Trace::capture_also(ClosedBody& body, std::span<const Tensor> tensors, const SourceLocation& loc) {
  std::vector<GraphBuilder::Captured> more;
  for (const Tensor& tensor : tensors) {
    more.push_back({name_in(builder_.body(), tensor.id()), type_id(tensor), place(loc)});
    body.captured.push_back(tensor);
  }
  if (!more.empty()) builder_.add_captures_to_closed(body.id, std::move(more));
}

// --- what Tensor asks of it ---

TensorType Tensor::type() const {
  const Trace* trace = Trace::current();
  return trace && trace->knows(*this) ? trace->type(*this) : TensorType{};
}

ElementType Tensor::element() const {
  const Trace* trace = Trace::current();
  return trace && trace->knows(*this) ? trace->type(*this).element : ElementType::kF32;
}

int Tensor::rank() const {
  const Trace* trace = Trace::current();
  return trace && trace->knows(*this) ? trace->type(*this).rank() : 0;
}

Dim Tensor::extent(int axis) const {
  const Trace* trace = Trace::current();
  if (!trace || !trace->knows(*this)) return 1;
  const std::vector<Expr>& shape = trace->type(*this).shape;
  const int index = axis < 0 ? axis + rank() : axis;
  return index < 0 || index >= rank() ? Dim(1) : trace->dim(shape[static_cast<size_t>(index)]);
}

Shape Tensor::shape() const {
  Shape out;
  for (int axis = 0; axis < rank(); ++axis) out.push_back(extent(axis));
  return out;
}

}  // namespace kiln::graph
