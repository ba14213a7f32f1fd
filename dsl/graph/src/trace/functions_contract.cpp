// Sums of products, windows and resampling.
#include <algorithm>
#include <numeric>

#include "trace/call.h"

namespace kiln::graph {
namespace {

// Of products whose author named no type: ints have room to add up.
ElementType dot_type(ElementType common) {
  if (dsl::is_float(common)) return common;
  return dsl::info(common).bits == 64 ? common : ElementType::kI32;
}

struct Windows {
  std::vector<int64_t> strides, low, high, dilation;
};

std::vector<int64_t> filled(Call& call, const Ints& given, size_t count, int64_t otherwise, const char* name) {
  if (given.empty()) return std::vector<int64_t>(count, otherwise);
  if (given.size() != count) {
    call.fail(std::to_string(given.size()) + " numbers in `" + name + "` for " + std::to_string(count) + " axes");
  }
  return given;
}

Windows conv_windows(Call& call, const ConvOptions& options, size_t count) {
  return {filled(call, options.strides, count, 1, "strides"), filled(call, options.low, count, 0, "low"),
          filled(call, options.high, count, 0, "high"), filled(call, options.dilation, count, 1, "dilation")};
}

// Windows are by `count` axes; strides left out are the sizes.
Windows pool_windows(Call& call, const WindowOptions& options, size_t count) {
  const Ints size = filled(call, options.size, count, 1, "size");
  Windows out{options.strides.empty() ? size : filled(call, options.strides, count, 1, "strides"),
              filled(call, options.low, count, 0, "low"), filled(call, options.high, count, 0, "high"),
              filled(call, options.dilation, count, 1, "dilation")};
  return out;
}

// Axes behind the first two.
size_t spatial(Call& call, const Tensor& x) {
  if (call.ok() && (call.rank(x) < 3 || call.rank(x) > 5)) {
    call.fail(call.text(x) + " has not the form [N, C, …] of 1 to 3 spatial axes");
  }
  return call.ok() ? static_cast<size_t>(call.rank(x) - 2) : 0;
}

std::vector<int64_t> counted(int64_t first, int64_t count) {
  std::vector<int64_t> out(static_cast<size_t>(std::max<int64_t>(count, 0)));
  std::iota(out.begin(), out.end(), first);
  return out;
}

// Brings the axes in front of the last two to the common ones of both.
void broadcast_batches(Call& call, Tensor& a, Tensor& b) {
  const std::vector<Expr> shape_a = call.shape(a), shape_b = call.shape(b);
  const auto batch = [](const std::vector<Expr>& shape) { return std::vector<Expr>(shape.begin(), shape.end() - 2); };
  std::vector<Expr> common = batch(shape_a);
  const std::vector<Expr> other = batch(shape_b);
  if (other.size() > common.size()) common.insert(common.begin(), other.size() - common.size(), Expr(1));
  for (size_t i = 0; i < other.size(); ++i) {
    Expr& extent = common[common.size() - other.size() + i];
    if (extent == Expr(1)) extent = other[i];
  }
  const auto whole = [&](const std::vector<Expr>& shape) {
    std::vector<Expr> out = common;
    out.insert(out.end(), shape.end() - 2, shape.end());
    return out;
  };
  a = call.broadcast(a, whole(shape_a));
  b = call.broadcast(b, whole(shape_b));
}

}  // namespace

Tensor dot(Operand a, Operand b, DotAxes axes, std::optional<ElementType> type, Precision precision) {
  Call call("dot", a);
  const std::vector<Tensor> operands = call.promoted({&a, &b});
  if (!call.ok()) return {};
  const int rank_a = call.rank(operands[0]), rank_b = call.rank(operands[1]);
  const auto places = [&](const Axes& each, int rank) {
    return each.empty() ? std::vector<int64_t>() : call.axes(each, rank);
  };
  AttrList attrs = {places(axes.batch_a, rank_a),
                    places(axes.batch_b, rank_b),
                    places(axes.contract_a, rank_a),
                    places(axes.contract_b, rank_b),
                    type.value_or(dot_type(call.element(operands[0]))),
                    number_of(precision)};
  return call.emit(TensorOp::kDot, operands, std::move(attrs));
}

// A vector is a row on the left, a column on the right, and its axis disappears.
Tensor matmul(Operand a, Operand b) {
  Call call("matmul", a);
  std::vector<Tensor> operands = call.promoted({&a, &b});
  if (!call.ok()) return {};
  Tensor left = operands[0], right = operands[1];
  const int rank_a = call.rank(left), rank_b = call.rank(right);
  if (rank_a == 0 || rank_b == 0) {
    call.fail("a scalar among " + call.text(left) + " and " + call.text(right) + "; write a * b");
    return {};
  }
  const Expr inner_a = call.extent(left, -1), inner_b = call.extent(right, rank_b == 1 ? 0 : -2);
  const auto product = [&](const std::vector<int64_t>& batch, int64_t contract_a, int64_t contract_b) {
    return call.emit(TensorOp::kDot, {left, right},
                     {batch, batch, std::vector<int64_t>{contract_a}, std::vector<int64_t>{contract_b},
                      dot_type(call.element(left)), number_of(Precision::kIeee)});
  };
  // The free axes of a stand in front of b's: nothing is to be repeated where b has no batch.
  if (rank_b <= 2) return product({}, rank_a - 1, rank_b == 1 ? 0 : rank_b - 2);
  if (rank_a == 1) {
    std::vector<Expr> row = call.shape(left);
    row.insert(row.begin(), Expr(1));
    left = call.reshape(left, row);
  }
  broadcast_batches(call, left, right);
  const int64_t batch = call.rank(left) - 2;
  const Tensor out = product(counted(0, batch), batch + 1, batch);
  if (rank_a > 1 || !call.ok()) return out;
  std::vector<Expr> shape = call.shape(out);
  shape.erase(shape.end() - 2);
  return call.reshape(out, shape);
}

Tensor linear(Operand x, Operand w, Operand bias) {
  Call call("linear", x);
  return call.emit(TensorOp::kLinear, call.promoted({&x, &w, &bias}));
}

Tensor conv(Operand x, Operand w, ConvOptions options) {
  Call call("conv", x);
  const std::vector<Tensor> operands = call.promoted({&x, &w});
  if (!call.ok()) return {};
  Windows by = conv_windows(call, options, spatial(call, operands[0]));
  return call.emit(
      TensorOp::kConv, operands,
      {std::move(by.strides), std::move(by.low), std::move(by.high), std::move(by.dilation), options.groups});
}

Tensor conv(Operand x, Operand w, Operand bias, ConvOptions options) {
  if (!bias.present()) return conv(std::move(x), std::move(w), std::move(options));
  Call call("conv", x);
  const std::vector<Tensor> operands = call.promoted({&x, &w, &bias});
  if (!call.ok()) return {};
  Windows by = conv_windows(call, options, spatial(call, operands[0]));
  return call.emit(
      TensorOp::kConvBias, operands,
      {std::move(by.strides), std::move(by.low), std::move(by.high), std::move(by.dilation), options.groups});
}

Tensor conv_transposed(Operand x, Operand w, ConvOptions options, Ints extra) {
  Call call("conv_transposed", x);
  const std::vector<Tensor> operands = call.promoted({&x, &w});
  if (!call.ok()) return {};
  const size_t count = spatial(call, operands[0]);
  Windows by = conv_windows(call, options, count);
  const std::vector<int64_t> more = filled(call, extra, count, 0, "extra");
  if (call.ok() && call.rank(operands[1]) != call.rank(operands[0])) {
    call.fail(call.text(operands[0]) + " and a window of " + call.text(operands[1]));
  }
  std::vector<Expr> shape;
  for (size_t i = 0; i < count && call.ok(); ++i) {
    const auto axis = static_cast<int64_t>(i + 2);
    shape.push_back((call.extent(operands[0], axis) - Expr(1)) * Expr(by.strides[i]) - Expr(by.low[i]) -
                    Expr(by.high[i]) + Expr(by.dilation[i]) * (call.extent(operands[1], axis) - Expr(1)) +
                    Expr(1 + more[i]));
  }
  return call.emit(TensorOp::kConvInput, operands,
                   {std::move(shape), std::move(by.strides), std::move(by.low), std::move(by.high),
                    std::move(by.dilation), options.groups});
}

Tensor conv_input(Operand g, Operand w, Shape shape, ConvOptions options) {
  Call call("conv_input", g);
  const std::vector<Tensor> operands = call.promoted({&g, &w});
  if (!call.ok()) return {};
  Windows by = conv_windows(call, options, spatial(call, operands[0]));
  std::vector<Expr> extents = call.exprs(shape);
  return call.emit(TensorOp::kConvInput, operands,
                   {std::move(extents), std::move(by.strides), std::move(by.low), std::move(by.high),
                    std::move(by.dilation), options.groups});
}

Tensor conv_weight(Operand x, Operand g, Shape window, ConvOptions options) {
  Call call("conv_weight", x);
  const std::vector<Tensor> operands = call.promoted({&x, &g});
  if (!call.ok()) return {};
  Windows by = conv_windows(call, options, spatial(call, operands[0]));
  std::vector<Expr> extents = call.exprs(window);
  return call.emit(TensorOp::kConvWeight, operands,
                   {std::move(extents), std::move(by.strides), std::move(by.low), std::move(by.high),
                    std::move(by.dilation), options.groups});
}

namespace {

// An op of windows by axis of its first operand.
Tensor windowed(Call& call, TensorOp op, const std::vector<Tensor>& operands, int64_t kind, WindowOptions options) {
  if (options.size.empty()) call.fail("no size of the window");
  if (!call.ok()) return {};
  Windows by = pool_windows(call, options, static_cast<size_t>(call.rank(operands[0])));
  return call.emit(op, operands,
                   {kind, std::move(options.size), std::move(by.strides), std::move(by.low), std::move(by.high),
                    std::move(by.dilation)});
}

}  // namespace

Tensor window(Operand x, WindowKind kind, WindowOptions options) {
  Call call("window", x);
  const Tensor from = call.tensor(x);
  return windowed(call, TensorOp::kWindow, {from}, number_of(kind), std::move(options));
}

Tensor window_spread(Operand x, Operand g, WindowKind kind, WindowOptions options) {
  Call call("window_spread", x);
  const std::vector<Tensor> operands = call.promoted({&x, &g});
  return windowed(call, TensorOp::kWindowSpread, operands, number_of(kind), std::move(options));
}

Tensor window_pick(Operand x, Operand t, PickKind kind, WindowOptions options) {
  Call call("window_pick", x);
  const Tensor from = call.tensor(x), shown = call.tensor(t);
  return windowed(call, TensorOp::kWindowPick, {from, shown}, number_of(kind), std::move(options));
}

Tensor max_pool(Operand x, WindowOptions options) {
  Call call("max_pool", x);
  const Tensor from = call.tensor(x);
  if (options.size.empty()) call.fail("no size of the window");
  if (!call.ok()) return {};
  Windows by = pool_windows(call, options, spatial(call, from));
  return call.emit(
      TensorOp::kMaxPool, {from},
      {std::move(options.size), std::move(by.strides), std::move(by.low), std::move(by.high), std::move(by.dilation)});
}

Tensor avg_pool(Operand x, WindowOptions options, bool count_padding) {
  Call call("avg_pool", x);
  const Tensor from = call.float_tensor(x);
  if (options.size.empty()) call.fail("no size of the window");
  if (!call.ok()) return {};
  Windows by = pool_windows(call, options, spatial(call, from));
  if (std::any_of(by.dilation.begin(), by.dilation.end(), [](int64_t each) { return each != 1; })) {
    call.fail("windows of means have no dilation");
  }
  return call.emit(
      TensorOp::kAvgPool, {from},
      {std::move(options.size), std::move(by.strides), std::move(by.low), std::move(by.high), int64_t{count_padding}});
}

Tensor resize_spread(Operand g, Shape shape, ResizeMode mode, bool corners) {
  Call call("resize_spread", g);
  const Tensor from = call.tensor(g);
  std::vector<Expr> extents = call.exprs(shape);
  return call.emit(TensorOp::kResizeSpread, {from}, {std::move(extents), number_of(mode), int64_t{corners}});
}

Tensor resize(Operand x, Shape shape, ResizeMode mode, bool corners) {
  Call call("resize", x);
  const Tensor from = call.float_tensor(x);
  std::vector<Expr> extents = call.exprs(shape);
  return call.emit(TensorOp::kResize, {from}, {std::move(extents), number_of(mode), int64_t{corners}});
}

}  // namespace kiln::graph
