// Bodies: the functions of loops, branches, calls and custom reductions, traced beside.
#include "kiln/graph/control.h"

#include "kiln/graph/extents.h"
#include "trace/body_scope.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

bool same_type(const Trace& trace, const TensorType& a, const TensorType& b) {
  if (a.element != b.element || a.rank() != b.rank()) return false;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (equal(trace.graph().dims, a.shape[i], b.shape[i]) != Known::kYes) return false;
  }
  return true;
}

// Usable ones as they are; an error makes the call fail.
Tensors checked(Call& call, const Tensors& tensors) {
  Tensors out;
  for (const Tensor& each : tensors) out.push_back(call.tensor(Operand(each, call.loc())));
  return out;
}

std::string count_text(size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// Of an op whose body could not be traced: as many as the author expects.
Tensors invalid(size_t count) { return Tensors(count); }

std::vector<Tensor> joined(std::initializer_list<const Tensors*> lists) {
  std::vector<Tensor> out;
  for (const Tensors* list : lists) out.insert(out.end(), list->begin(), list->end());
  return out;
}

LoopStep split_results(const Tensors& results, size_t carried) {
  const auto middle = results.begin() + static_cast<ptrdiff_t>(carried);
  return {Tensors(results.begin(), middle), Tensors(middle, results.end())};
}

// Runs the function for no body, so that its counts are known after an error.
LoopStep failed_loop(const Tensors& carried, const Tensors& scanned,
                     const std::function<LoopStep(Tensors, Tensors)>& step) {
  const LoopStep shape = step(invalid(carried.size()), invalid(scanned.size()));
  return {invalid(carried.size()), invalid(shape.stacked.size())};
}

void check_carried(Call& call, const Tensors& first, const Tensors& next) {
  if (first.size() != next.size()) {
    call.fail("begins with " + count_text(first.size(), "carried tensor") + ", and its function gives " +
              std::to_string(next.size()));
  }
  for (size_t i = 0; i < next.size() && call.ok(); ++i) {
    if (!call.trace().usable(next[i], call.what(), call.loc())) return call.fail();
    if (same_type(call.trace(), call.type(first[i]), call.type(next[i]))) continue;
    call.fail("carried tensor " + std::to_string(i) + " begins as " + call.text(first[i]) + " and goes on as " +
              call.text(next[i]));
  }
}

void check_scanned(Call& call, const Tensors& scanned, const Expr& length) {
  for (size_t i = 0; i < scanned.size() && call.ok(); ++i) {
    if (call.rank(scanned[i]) > 0 &&
        equal(call.trace().graph().dims, call.extent(scanned[i], 0), length) == Known::kYes) {
      continue;
    }
    call.fail("scanned tensor " + std::to_string(i) + " is " + call.text(scanned[i]) + ", whose first extent is not " +
              call.trace().text(length));
  }
}

}  // namespace

LoopStep loop(Dim length, Tensors carried, Tensors scanned,
              const std::function<LoopStep(Tensors carried, Tensors slices)>& step, LoopOptions options,
              SourceLocation loc) {
  Call call("loop", loc);
  const Expr count = call.expr(length);
  carried = checked(call, carried);
  scanned = checked(call, scanned);
  check_scanned(call, scanned, count);
  if (!call.ok()) return failed_loop(carried, scanned, step);
  BodyScope body(call.trace(), "loop", "loop", loc);
  Tensors first, slices;
  for (size_t i = 0; i < carried.size(); ++i) {
    first.push_back(body.add_input("carried" + std::to_string(i), call.type(carried[i])));
  }
  for (size_t i = 0; i < scanned.size(); ++i) {
    TensorType slice = call.type(scanned[i]);
    slice.shape.erase(slice.shape.begin());
    slices.push_back(body.add_input("slice" + std::to_string(i), slice));
  }
  const LoopStep next = step(first, slices);
  check_carried(call, carried, next.carried);
  auto closed = call.ok() ? body.close(joined({&next.carried, &next.stacked})) : std::nullopt;
  const Tensors failed = invalid(carried.size() + next.stacked.size());
  if (!closed) return split_results(failed, carried.size());
  const Tensors results = call.trace().emit_all(
      TensorOp::kLoop, joined({&carried, &scanned, &closed->captured}),
      {int64_t{closed->id}, number_of(carried.size()), number_of(scanned.size()), count, int64_t{options.reverse}},
      loc);
  return split_results(results.empty() ? failed : results, carried.size());
}

Tensors cond(Operand predicate, const std::function<Tensors()>& then, const std::function<Tensors()>& otherwise) {
  Call call("cond", predicate);
  const Tensor chosen = call.tensor(predicate, i1);
  if (call.ok() && (call.element(chosen) != i1 || call.rank(chosen) != 0)) {
    call.fail("the predicate is " + call.text(chosen) + ", not i1[]; where() chooses element by element");
  }
  if (!call.ok()) return invalid(then().size());
  BodyScope first(call.trace(), "cond", "then", call.loc());
  const Tensors results = then();
  std::vector<TensorType> types;
  for (const Tensor& each : results) types.push_back(each.type());
  auto one = first.close(results);
  if (!one) {
    otherwise();  // its errors too
    return invalid(results.size());
  }
  // Both take the same operands: what the first captures, then what the second does beyond that.
  BodyScope second(call.trace(), "cond", "otherwise", call.loc());
  for (const Tensor& each : one->captured) call.trace().resolve(each, call.loc());
  const Tensors others = otherwise();
  if (others.size() != results.size()) {
    call.fail("one branch gives " + count_text(results.size(), "tensor") + ", the other " +
              std::to_string(others.size()));
  }
  for (size_t i = 0; i < others.size() && call.ok(); ++i) {
    if (!call.trace().usable(others[i], call.what(), call.loc())) call.fail();
    if (!call.ok() || same_type(call.trace(), types[i], call.type(others[i]))) continue;
    call.fail("result " + std::to_string(i) + " is " + to_string(types[i], call.trace().graph().expr_names()) +
              " of one branch and " + call.text(others[i]) + " of the other");
  }
  auto other = call.ok() ? second.close(others) : std::nullopt;
  if (!other) return invalid(results.size());
  const auto more = std::span(other->captured).subspan(one->captured.size());
  call.trace().capture_also(*one, more, call.loc());
  const Tensors operand = {chosen};
  const Tensors out = call.trace().emit_all(TensorOp::kCond, joined({&operand, &other->captured}),
                                            {int64_t{one->id}, int64_t{other->id}}, call.loc());
  return out.empty() ? invalid(results.size()) : out;
}

Tensor cond(Operand predicate, const std::function<Tensor()>& then, const std::function<Tensor()>& otherwise) {
  return cond(std::move(predicate), std::function<Tensors()>([&] { return Tensors{then()}; }),
              std::function<Tensors()>([&] { return Tensors{otherwise()}; }))[0];
}

namespace {

Tensors call_body(const char* what, std::string name, const Tensors& given,
                  const std::function<Tensors(Tensors)>& function, bool recompute, const SourceLocation& loc) {
  Call call(what, loc);
  const Tensors inputs = checked(call, given);
  if (!call.ok()) return invalid(function(invalid(given.size())).size());
  BodyScope body(call.trace(), what, std::move(name), loc);
  Tensors inside;
  for (size_t i = 0; i < inputs.size(); ++i) {
    inside.push_back(body.add_input("x" + std::to_string(i), call.type(inputs[i])));
  }
  const Tensors results = function(inside);
  if (results.empty()) call.fail("its function gives no tensors");
  auto closed = call.ok() ? body.close(results) : std::nullopt;
  if (!closed) return invalid(results.size());
  const Tensors out = call.trace().emit_all(TensorOp::kCall, joined({&inputs, &closed->captured}),
                                            {int64_t{closed->id}, int64_t{recompute}}, loc);
  return out.empty() ? invalid(results.size()) : out;
}

// A body that combines scalars of the left and the right side.
std::optional<Trace::ClosedBody> combining_body(Call& call, const Tensors& xs, const Combine& combine) {
  BodyScope body(call.trace(), std::string(call.what()), "combine", call.loc(), Trace::Outside::kRefused);
  Tensors sides[2];
  for (Tensors& side : sides) {
    const char* const name = &side == &sides[0] ? "left" : "right";
    for (size_t i = 0; i < xs.size(); ++i) {
      side.push_back(body.add_input(name + std::to_string(i), {call.element(xs[i]), {}}));
    }
  }
  const Tensors results = combine(sides[0], sides[1]);
  if (results.size() != xs.size()) {
    call.fail("combines " + count_text(xs.size(), "tensor") + ", and its function gives " +
              std::to_string(results.size()));
  }
  for (size_t i = 0; i < results.size() && call.ok(); ++i) {
    if (!call.trace().usable(results[i], call.what(), call.loc())) call.fail();
    const TensorType type = call.type(results[i]);
    if (!call.ok() || (type.element == call.element(sides[0][i]) && type.shape.empty())) continue;
    call.fail("its function combines two of " + call.text(sides[0][i]) + " to " + call.text(results[i]));
  }
  return call.ok() ? body.close(results) : std::nullopt;
}

Tensors combined(Call& call, TensorOp op, const Tensors& xs, const Tensors& inits, AttrList attrs,
                 const Combine& combine) {
  if (xs.empty()) call.fail("no tensors");
  if (!call.ok()) return invalid(xs.size());
  const auto closed = combining_body(call, xs, combine);
  if (!closed) return invalid(xs.size());
  attrs.insert(attrs.begin(), Attr(int64_t{closed->id}));
  const Tensors out = call.trace().emit_all(op, joined({&xs, &inits}), std::move(attrs), call.loc());
  return out.empty() ? invalid(xs.size()) : out;
}

}  // namespace

Tensors call(std::string name, Tensors inputs, const std::function<Tensors(Tensors)>& function, SourceLocation loc) {
  return call_body("call", std::move(name), inputs, function, false, loc);
}

Tensors checkpoint(Tensors inputs, const std::function<Tensors(Tensors)>& function, SourceLocation loc) {
  return call_body("checkpoint", "checkpoint", inputs, function, true, loc);
}

Tensors reduce(Tensors xs, Tensors inits, std::vector<int> axes, const Combine& combine, bool keep,
               SourceLocation loc) {
  Call call("reduce", loc);
  xs = checked(call, xs);
  inits = checked(call, inits);
  if (xs.size() != inits.size()) {
    call.fail(count_text(xs.size(), "tensor") + " and " + count_text(inits.size(), "init"));
  }
  std::vector<int64_t> places = xs.empty() ? std::vector<int64_t>() : call.axes(axes, call.rank(xs[0]));
  return combined(call, TensorOp::kReduceCustom, xs, inits, {std::move(places), int64_t{keep}}, combine);
}

Tensors scan(Tensors xs, int axis, const Combine& combine, bool reverse, SourceLocation loc) {
  Call call("scan", loc);
  xs = checked(call, xs);
  const int64_t place = xs.empty() ? 0 : call.axis(axis, call.rank(xs[0]));
  return combined(call, TensorOp::kScanCustom, xs, {}, {place, int64_t{reverse}}, combine);
}

}  // namespace kiln::graph
