// loop, cond, call, kernel: types of operands against inputs of bodies.
#include "infer/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

Result<const Body*> body_of(const Application& app, size_t attr) {
  const int64_t id = int_attr(app.attrs, attr);
  if (id <= 0 || static_cast<uint64_t>(id) >= app.graph.bodies.size()) {
    return app.fail(info(app.op).attrs[attr].name + " " + std::to_string(id) + " is no body of the graph");
  }
  return &app.graph.bodies[static_cast<size_t>(id)];
}

// `what` gives their names, which graphs of many bodies ask for only where something is wrong.
template <class What>
Result<void> same_type(const Application& app, const TensorType& a, const TensorType& b, const What& what) {
  if (a == b) return {};
  if (a.element != b.element || a.rank() != b.rank())
    return app.fail(what() + " have types " + app.text(a) + " and " + app.text(b));
  return app.same_shape(a.shape, b.shape, what());
}

std::string input_text(const Body& body, size_t i) { return "input " + body.inputs[i].name + " of @" + body.name; }

// Operands from a place on against all inputs of a body.
Result<void> takes_operands(const Application& app, const Body& body, size_t first) {
  if (body.inputs.size() != app.operands.size() - first) {
    return app.fail("@" + body.name + " takes " + std::to_string(body.inputs.size()) + " inputs, not " +
                    std::to_string(app.operands.size() - first));
  }
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    KILN_CHECK(same_type(app, app.graph.type(body, body.inputs[i].value), app.in(first + i),
                         [&] { return input_text(body, i) + " and its operand"; }));
  }
  return {};
}

Types outputs_of(const Application& app, const Body& body) {
  Types out;
  for (const Output& output : body.outputs) out.push_back(app.graph.type(body, output.value));
  return out;
}

Result<Types> infer_loop(const Application& app) {
  auto found = body_of(app, 0);
  if (!found) return found.error();
  const Body& body = **found;
  const int64_t carried = int_attr(app.attrs, 1), scanned = int_attr(app.attrs, 2);
  const Expr& length = expr_attr(app.attrs, 3);
  const auto count = static_cast<int64_t>(app.operands.size());
  if (carried < 0 || scanned < 0 || carried > count || scanned > count - carried) {
    return app.fail(std::to_string(carried) + " carried and " + std::to_string(scanned) + " scanned of " +
                    std::to_string(count) + " operands");
  }
  KILN_CHECK(app.not_negative(length, "length"));
  if (body.inputs.size() != app.operands.size()) {
    return app.fail("@" + body.name + " takes " + std::to_string(body.inputs.size()) + " inputs, not " +
                    std::to_string(count));
  }
  if (static_cast<int64_t>(body.outputs.size()) < carried) {
    return app.fail("@" + body.name + " gives " + std::to_string(body.outputs.size()) +
                    " outputs, fewer than are carried");
  }
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const TensorType* wanted = &app.in(i);
    TensorType slice;
    if (place >= carried && place < carried + scanned) {
      if (wanted->shape.empty()) return app.fail("a scanned tensor of no axes");
      KILN_CHECK(app.same_extent(wanted->shape[0], length, "the first axis of a scanned tensor and length"));
      slice = {wanted->element, {wanted->shape.begin() + 1, wanted->shape.end()}};
      wanted = &slice;
    }
    KILN_CHECK(same_type(app, app.graph.type(body, body.inputs[i].value), *wanted,
                         [&] { return input_text(body, i) + " and its operand"; }));
  }
  Types out;
  out.reserve(body.outputs.size());
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    TensorType type = app.graph.type(body, body.outputs[i].value);
    if (static_cast<int64_t>(i) < carried) {
      KILN_CHECK(same_type(app, app.in(i), type, [&] {
        return "the carried operand " + std::to_string(i) + " and output " + body.outputs[i].name + " of @" + body.name;
      }));
    } else {
      type.shape.insert(type.shape.begin(), length);
      KILN_CHECK(app.fits(type.shape));
    }
    out.push_back(std::move(type));
  }
  return out;
}

Result<Types> infer_cond(const Application& app) {
  auto then = body_of(app, 0), otherwise = body_of(app, 1);
  if (!then) return then.error();
  if (!otherwise) return otherwise.error();
  KILN_CHECK(app.element_is(0, ElementType::kI1));
  KILN_CHECK(app.rank_is(0, 0));
  KILN_CHECK(takes_operands(app, **then, 1));
  KILN_CHECK(takes_operands(app, **otherwise, 1));
  Types out = outputs_of(app, **then), other = outputs_of(app, **otherwise);
  if (out.size() != other.size())
    return app.fail("@" + (*then)->name + " and @" + (*otherwise)->name + " give different numbers of outputs");
  for (size_t i = 0; i < out.size(); ++i) {
    KILN_CHECK(same_type(app, out[i], other[i], [&] {
      return "outputs " + std::to_string(i) + " of @" + (*then)->name + " and @" + (*otherwise)->name;
    }));
  }
  return out;
}

}  // namespace

Result<Types> infer_control(const Application& app) {
  auto body = body_of(app, 0);
  if (!body) return body.error();
  if ((*body)->outputs.empty()) return app.fail("@" + (*body)->name + " gives nothing");
  if (app.op == kLoop) return infer_loop(app);
  if (app.op == kCond) return infer_cond(app);
  KILN_CHECK(takes_operands(app, **body, 0));
  return outputs_of(app, **body);
}

Result<Types> infer_kernel(const Application& app) {
  const int64_t id = int_attr(app.attrs, 0);
  if (id < 0 || static_cast<uint64_t>(id) >= app.graph.kernels.size())
    return app.fail("kernel " + std::to_string(id) + " is none of the graph's");
  const TileKernel& kernel = app.graph.kernels[static_cast<size_t>(id)];
  if (kernel.operands.size() != app.operands.size()) {
    return app.fail("@" + kernel.name + " takes " + std::to_string(kernel.operands.size()) + " operands, not " +
                    std::to_string(app.operands.size()));
  }
  for (size_t i = 0; i < app.operands.size(); ++i) {
    KILN_CHECK(same_type(app, kernel.operands[i], app.in(i), [&] {
      return "operand " + std::to_string(i) + " of @" + kernel.name + " and what is given";
    }));
  }
  return kernel.results;
}

}  // namespace kiln::graph
