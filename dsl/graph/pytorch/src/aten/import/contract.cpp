// Sums of products: matrices, einsum, convolutions, attention, distances.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "aten/import/functions.h"
#include "aten/import/windows.h"

namespace kiln::graph::aten {
namespace {

// Ints multiply in i64, whatever they are.
Tensor product_of(const Tensor& x, const Tensor& y) {
  if (is_float(x) || is_float(y)) return matmul(x, y);
  return like(matmul(as(x, i64), as(y, i64)), x);
}

template <int rank>
Results matrix_product(Arguments& a) {
  const Tensor x = a.tensor("self"), y = a.tensor(rank == 1 ? "vec" : rank == 0 ? "other" : "mat2");
  return {a.ok() ? product_of(x, y) : Tensor()};
}

Results vector_product(Arguments& a) {
  const Tensor x = a.tensor("self"), y = a.tensor(a.has("tensor") ? "tensor" : "other");
  return {a.ok() ? product_of(x, y) : Tensor()};
}

Results outer_product(Arguments& a) {
  const Tensor x = a.tensor("self"), y = a.tensor("vec2");
  if (!a.ok()) return {};
  const Tensor column = reshape(x, {x.extent(0), 1});
  return {common(Term(x), Term(y)) == i1 ? column & y : binary(operator*, column, y)};
}

bool is_one(const Term& term) {
  const auto* whole = std::get_if<int64_t>(&term);
  const auto* real = std::get_if<double>(&term);
  return (whole && *whole == 1) || (real && *real == 1);
}
bool is_zero(const Term& term) {
  const auto* whole = std::get_if<int64_t>(&term);
  const auto* real = std::get_if<double>(&term);
  return (whole && *whole == 0) || (real && *real == 0);
}

// beta·self + alpha·product, rounded once.
Tensor with_sum(Arguments& a, const Tensor& x, const Tensor& left, const Tensor& right) {
  const Term beta = a.term("beta", Term(int64_t{1})), alpha = a.term("alpha", Term(int64_t{1}));
  if (!a.ok()) return {};
  const ElementType type = left.element(), in = dsl::is_small_float(type) ? f32 : type;
  const bool plain = is_one(beta) && is_one(alpha);
  Tensor product;
  if (dsl::is_float(type)) {
    const int rank = left.rank();
    const Axes batch = rank == 3 ? Axes{0} : Axes{};
    const int last = right.rank() == 1 ? 0 : right.rank() - 2;
    product = dot(left, right, {batch, batch, {rank - 1}, {last}}, plain ? type : in);
  } else {
    product = product_of(left, right);
  }
  if (plain) return like(x, product) + product;
  product = binary(operator*, product, alpha, in);
  // Of beta 0 what self is does not matter, NaN neither.
  return as(is_zero(beta) ? product : binary(operator*, as(x, in), beta, in) + product, type);
}

Results matrix_sum(Arguments& a) {
  const Tensor x = a.tensor("self");
  const bool batched = a.has("batch1"), vector = a.has("vec");
  const Tensor left = a.tensor(batched ? "batch1" : vector ? "mat" : "mat1");
  const Tensor right = a.tensor(batched ? "batch2" : vector ? "vec" : "mat2");
  if (!a.ok()) return {};
  if (a.base() != "addbmm") return {with_sum(a, x, left, right)};
  // The sum over the batch is a longer sum of products.
  const Dim rows = left.extent(1), columns = right.extent(2), inner = left.extent(0) * left.extent(2);
  return {with_sum(a, x, reshape(permute(left, {1, 0, 2}), {rows, inner}), reshape(right, {inner, columns}))};
}

Results vectors_sum(Arguments& a) {
  const Tensor x = a.tensor("self"), p = a.tensor("vec1"), q = a.tensor("vec2");
  if (!a.ok()) return {};
  const Term beta = a.term("beta", Term(int64_t{1})), alpha = a.term("alpha", Term(int64_t{1}));
  const ElementType type = common(Term(x), Term(p), Term(q)), in = dsl::is_small_float(type) ? f32 : type;
  if (type == i1) return {x | (reshape(p, {p.extent(0), 1}) & q)};
  const Tensor outer = as(reshape(p, {p.extent(0), 1}), in) * as(q, in);
  const Tensor scaled = is_one(alpha) ? outer : binary(operator*, outer, alpha, in);
  if (is_zero(beta)) return {as(scaled, type)};
  return {as((is_one(beta) ? as(x, in) : binary(operator*, as(x, in), beta, in)) + scaled, type)};
}

Results linear_of(Arguments& a) {
  const Tensor x = a.tensor("input"), w = a.tensor("weight");
  const Operand bias = a.optional("bias");
  if (!a.ok()) return {};
  if (!is_float(x) || w.rank() == 1) {
    const Tensor y = product_of(x, w.rank() == 2 ? transpose(w, 0, 1) : w);
    return {bias.present() ? y + bias : y};
  }
  return {linear(x, w, bias)};
}

// --- einsum ---

// One operand with its axes named, none twice.
struct Named {
  Tensor x;
  std::string names;
};

// The diagonal of axes of one name.
Named without_twins(Named given) {
  for (size_t i = 0; i < given.names.size(); ++i) {
    for (size_t k = i + 1; k < given.names.size(); ++k) {
      if (given.names[i] != given.names[k]) continue;
      const int one = static_cast<int>(i), other = static_cast<int>(k);
      const Tensor line = iota(i64, {given.x.extent(one)}, 0);
      given.x = move_axis(index(given.x, {line, line}, {one, other}), 0, one);
      given.names.erase(k, 1);
      --k;
    }
  }
  return given;
}

Named summed(Named given, const std::string& kept) {
  Axes gone;
  std::string left;
  for (size_t i = 0; i < given.names.size(); ++i) {
    if (kept.find(given.names[i]) == std::string::npos)
      gone.push_back(static_cast<int>(i));
    else
      left += given.names[i];
  }
  if (gone.empty()) return given;
  return {like(sum(given.x, gone), given.x), left};
}

// Axes that both have and that are kept are batches; those of extent 1 beside another extent are repeated.
Named together(Named a, Named b, const std::string& kept) {
  for (size_t i = 0; i < a.names.size(); ++i) {
    const size_t k = b.names.find(a.names[i]);
    if (k == std::string::npos) continue;
    const int one = static_cast<int>(i), other = static_cast<int>(k);
    const Dim p = a.x.extent(one), q = b.x.extent(other);
    if (same(p, q)) continue;
    if (known(p) == 1) a.x = broadcast_to(a.x, with(a.x.shape(), one, q));
    if (known(q) == 1) b.x = broadcast_to(b.x, with(b.x.shape(), other, p));
  }
  const auto lone = [&](const Named& own, const Named& other) {
    std::string out = kept;
    for (const char c : other.names) out += c;
    return summed(own, out);
  };
  a = lone(a, b);
  b = lone(b, a);
  DotAxes axes;
  std::string batch, free_a, free_b;
  for (size_t i = 0; i < a.names.size(); ++i) {
    const size_t k = b.names.find(a.names[i]);
    const bool stays = kept.find(a.names[i]) != std::string::npos;
    if (k == std::string::npos) {
      free_a += a.names[i];
      continue;
    }
    (stays ? axes.batch_a : axes.contract_a).push_back(static_cast<int>(i));
    (stays ? axes.batch_b : axes.contract_b).push_back(static_cast<int>(k));
    if (stays) batch += a.names[i];
  }
  for (const char c : b.names) {
    if (a.names.find(c) == std::string::npos) free_b += c;
  }
  const ElementType type = a.x.element();
  return {dot(a.x, b.x, axes, type), batch + free_a + free_b};
}

// Names of all axes of each operand and of the result; axes of `...` have names of their own.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

std::string spelled(std::string part, int hidden) {
  std::string dots;
  for (int i = 0; i < hidden; ++i) dots += static_cast<char>('0' + i);
  const size_t at = part.find("...");
  if (at != std::string::npos) part.replace(at, 3, dots);
  return part;
}

std::optional<Equation> equation_of(Arguments& a, const std::vector<Tensor>& xs) {
  std::string text = a.word("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  std::vector<std::string> parts;
  for (size_t from = 0;;) {
    const size_t comma = left.find(',', from);
    parts.push_back(left.substr(from, comma - from));
    if (comma == std::string::npos) break;
    from = comma + 1;
  }
  if (parts.size() != xs.size()) a.fail("`" + text + "` for " + std::to_string(xs.size()) + " tensors");
  Equation out;
  int most = 0;
  std::map<char, int> counts;
  for (size_t i = 0; a.ok() && i < parts.size(); ++i) {
    const bool dots = parts[i].find("...") != std::string::npos;
    const int hidden = xs[i].rank() - static_cast<int>(parts[i].size()) + (dots ? 3 : 0);
    if (hidden < 0 || hidden > 9 || (!dots && hidden > 0)) a.fail("`" + parts[i] + "` for a tensor of another rank");
    if (!a.ok()) return std::nullopt;
    most = std::max(most, hidden);
    for (const char c : parts[i]) counts[c] += c == '.' ? 0 : 1;
    std::string names = spelled(parts[i], hidden);
    out.operands.push_back(std::move(names));
  }
  // Axes of `...` are aligned at the last one.
  for (size_t i = 0; i < out.operands.size(); ++i) {
    const int hidden = xs[i].rank() - static_cast<int>(parts[i].size()) + 3;
    if (parts[i].find("...") == std::string::npos) continue;
    for (char& c : out.operands[i]) {
      if (c >= '0' && c <= '9') c = static_cast<char>(c + most - hidden);
    }
  }
  if (arrow != std::string::npos) {
    out.result = spelled(text.substr(arrow + 2), most);
  } else {
    out.result = spelled("...", most);
    for (const auto& [c, count] : counts) out.result += count == 1 ? std::string(1, c) : std::string();
  }
  for (const char c : out.result) {
    const bool there = std::any_of(out.operands.begin(), out.operands.end(),
                                   [&](const std::string& names) { return names.find(c) != std::string::npos; });
    if (!there) a.fail(std::string("no tensor has the axis `") + c + "` of the result");
  }
  return out;
}

// From left to right, each sum as early as can be.
Results einsum_of(Arguments& a) {
  const std::vector<Tensor> xs = a.tensors("tensors");
  if (a.ok() && xs.empty()) a.fail("no tensors");
  if (!a.ok()) return {};
  const auto equation = equation_of(a, xs);
  if (!a.ok() || !equation) return {};
  Named all = without_twins({xs[0], equation->operands[0]});
  for (size_t i = 1; i <= xs.size(); ++i) {
    std::string kept = equation->result;
    for (size_t k = i + 1; k < xs.size(); ++k) kept += equation->operands[k];
    if (i == xs.size()) {
      all = summed(all, kept);
    } else {
      all = together(all, without_twins({xs[i], equation->operands[i]}), kept);
    }
  }
  Axes order;
  for (const char c : equation->result) order.push_back(static_cast<int>(all.names.find(c)));
  return {permute(all.x, order)};
}

// --- convolutions ---

Tensor convolved(Arguments& a, const Tensor& given, const Tensor& w, const Operand& bias, ConvOptions by,
                 bool transposed, const Ints& extra) {
  const bool batched = given.rank() == w.rank();
  if (a.ok() && (w.rank() < 3 || (!batched && given.rank() + 1 != w.rank())))
    a.fail("an input and a window of other axes");
  if (!a.ok()) return {};
  const Tensor x = batched ? given : reshape(given, inserted(given.shape(), 0, 1));
  Tensor y;
  if (transposed) {
    // Places behind the end are such as less padding leaves.
    for (size_t i = 0; i < by.high.size() && i < extra.size(); ++i) by.high[i] -= extra[i];
    y = conv_transposed(x, w, by);
    if (bias.present()) {
      Shape shape(static_cast<size_t>(w.rank() - 1), Dim(1));
      shape[0] = bias.tensor().extent(0);
      y = y + reshape(bias, shape);
    }
  } else {
    y = conv(x, w, bias, by);
  }
  return batched ? y : reshape(y, without(y.shape(), 0));
}

Results convolution_of(Arguments& a) {
  const Tensor x = a.tensor("input"), w = a.tensor("weight");
  const Operand bias = a.optional("bias");
  if (!a.ok()) return {};
  const size_t axes = w.rank() < 2 ? 0 : static_cast<size_t>(w.rank() - 2);
  const bool transposed = a.flag("transposed", a.base().starts_with("conv_transpose"));
  const Ints padding = a.repeated("padding", axes, 0);
  const ConvOptions by{a.repeated("stride", axes, 1), padding, padding, a.repeated("dilation", axes, 1),
                       a.integer("groups", 1)};
  return {convolved(a, x, w, bias, by, transposed, a.repeated("output_padding", axes, 0))};
}

// conv1d and its like with a word for the padding: "same" puts what is odd behind.
Results convolution_by_word(Arguments& a) {
  const Tensor x = a.tensor("input"), w = a.tensor("weight");
  const Operand bias = a.optional("bias");
  const std::string word = a.word("padding", "valid");
  if (word != "valid" && word != "same") a.fail("`padding` is valid or same, not " + word);
  if (!a.ok()) return {};
  const size_t axes = w.rank() < 2 ? 0 : static_cast<size_t>(w.rank() - 2);
  ConvOptions by{a.repeated("stride", axes, 1), Ints(axes, 0), Ints(axes, 0), a.repeated("dilation", axes, 1),
                 a.integer("groups", 1)};
  for (size_t i = 0; word == "same" && a.ok() && i < axes; ++i) {
    const auto size = known(w.extent(static_cast<int>(i) + 2));
    if (!size) a.fail("the window's extents must be known");
    const int64_t total = by.dilation[i] * (size.value_or(1) - 1);
    by.low[i] = total / 2;
    by.high[i] = total - total / 2;
  }
  return {convolved(a, x, w, bias, by, false, {})};
}

// --- attention ---

// [B, H, M, D] of what has fewer axes, or more batch axes.
Tensor of_four_axes(const Tensor& x) {
  Shape shape = x.shape();
  if (shape.size() == 4) return x;
  if (shape.size() < 4) {
    shape.insert(shape.begin(), 4 - shape.size(), Dim(1));
  } else {
    const auto end = shape.end() - 3;
    const Dim batch = product(std::span(shape.begin(), end));
    shape.erase(shape.begin(), end);
    shape.insert(shape.begin(), batch);
  }
  return reshape(x, shape);
}

// With the batch axes of q, which must hold as many: of one head, or of heads in groups where that is allowed.
Tensor spread_to(const Tensor& x, const Shape& front, bool groups) {
  Shape own = x.shape(), tail(own.end() - 2, own.end());
  own.resize(own.size() - 2);
  Shape out = broadcast_shape(front, own);
  if (groups && !own.empty() && !out.empty()) out.back() = own.back();
  out.insert(out.end(), tail.begin(), tail.end());
  return broadcast_to(x, out);
}

// i1: what each query sees, where its place counts from the first.
Tensor causal_mask(const Tensor& q, const Tensor& k) {
  const Shape places = {q.extent(-2), k.extent(-2)};
  return iota(i64, places, 0) >= iota(i64, places, 1);
}

std::string_view mask_name(Arguments& a) { return a.has("attn_bias") ? "attn_bias" : "attn_mask"; }

// softmax(q·kᵀ·scale + mask)·v.
Tensor attended(Arguments& a) {
  const Tensor q = a.tensor("query"), k = a.tensor("key"), v = a.tensor("value");
  Operand mask = a.optional(mask_name(a));
  const bool causal = a.flag("is_causal", false);
  const double scale = a.real("scale", 0);
  if (a.ok() && (q.rank() < 2 || k.rank() < 2 || v.rank() < 2)) a.fail("operands of fewer than two axes");
  if (a.ok() && causal && mask.present()) a.fail("a causal attention with a mask");
  if (a.real("dropout_p", 0) != 0) a.fail("attention with dropout");
  if (!a.ok()) return {};
  // The op aligns the last places: the same where there are as many.
  const bool square = same(q.extent(-2), k.extent(-2));
  if (causal && !square) mask = causal_mask(q, k);
  Shape front = q.shape();
  front.resize(front.size() - 2);
  if (mask.present() && mask.tensor().rank() > 4) {
    Shape whole = front;
    whole.insert(whole.end(), {q.extent(-2), k.extent(-2)});
    mask = of_four_axes(broadcast_to(mask, whole));
  }
  const bool groups = a.flag("enable_gqa", false);
  const Tensor keys = of_four_axes(spread_to(k, front, groups)), values = of_four_axes(spread_to(v, front, groups));
  const Tensor y = attention(of_four_axes(q), keys, values, {causal && square, 0, scale}, mask);
  front.insert(front.end(), {q.extent(-2), v.extent(-1)});
  return reshape(y, front);
}

Results attention_of(Arguments& a) { return {attended(a)}; }

// Those that give the logarithm of each row's sum as the second result.
Results attention_with_sums(Arguments& a) {
  const Tensor y = attended(a);
  if (!a.ok() || !a.wants(1)) return {y};
  const Tensor q = wide(a.tensor("query")), k = wide(a.tensor("key"));
  const auto width = known(q.extent(-1));
  if (!width) a.fail("a width that is known when the graph runs");
  const double scale = a.real("scale", 1 / std::sqrt(as_double(width.value_or(1))));
  Tensor scores = matmul(q, transpose(k)) * scale;
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  if (a.has(mask_name(a))) {
    const Tensor mask = a.tensor(mask_name(a));
    scores = mask.element() == i1 ? where(mask, scores, kNothing) : scores + like(mask, scores);
  }
  if (a.flag("is_causal", false)) scores = where(causal_mask(q, k), scores, kNothing);
  return {y, logsumexp(scores, {-1})};
}

// --- distances ---

Tensor distance(const Tensor& x, const Tensor& y, double p) {
  const Tensor d = abs(x - y);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (p == 0) return sum(as(d != 0, d.element()), {-1});
  if (p == 1) return sum(d, {-1});
  if (p == 2) return sqrt(sum(d * d, {-1}));
  if (p == kInfinity) return reduce_max(d, {-1});
  return pow(sum(pow(d, p), {-1}), 1 / p);
}

Results distances(Arguments& a) {
  const Tensor x = a.tensor("x1"), y = a.tensor("x2");
  const double p = a.real("p", 2);
  if (a.ok() && (x.rank() < 2 || y.rank() < 2)) a.fail("rows of tensors of fewer than two axes");
  if (!a.ok()) return {};
  return {
      distance(reshape(x, inserted(x.shape(), x.rank() - 1, 1)), reshape(y, inserted(y.shape(), y.rank() - 2, 1)), p)};
}

Results distances_of_pairs(Arguments& a) {
  const Tensor x = a.tensor("self");
  const double p = a.real("p", 2);
  const auto rows = known(x.extent(0));
  if (!rows) a.fail("the number of rows must be known");
  if (a.ok() && *rows > 4096) a.fail("pairs of " + std::to_string(*rows) + " rows");
  if (!a.ok()) return {};
  std::vector<double> first, second;
  for (int64_t i = 0; i < *rows; ++i) {
    for (int64_t k = i + 1; k < *rows; ++k) {
      first.push_back(as_double(i));
      second.push_back(as_double(k));
    }
  }
  const auto count = static_cast<int64_t>(first.size());
  return {distance(index(x, {constant(i64, {count}, first)}, {0}), index(x, {constant(i64, {count}, second)}, {0}), p)};
}

// Over the named axes of both.
Results tensor_product(Arguments& a) {
  const Tensor x = a.tensor("self"), y = a.tensor("other");
  const Ints dims_x = a.ints("dims_self"), dims_y = a.ints("dims_other");
  if (dims_x.size() != dims_y.size()) a.fail("as many axes of both are needed");
  DotAxes axes;
  for (size_t i = 0; a.ok() && i < dims_x.size(); ++i) {
    axes.contract_a.push_back(a.axis(dims_x[i], x.rank()));
    axes.contract_b.push_back(a.axis(dims_y[i], y.rank()));
  }
  if (!a.ok()) return {};
  return {is_float(x) ? dot(x, y, axes) : like(dot(as(x, i64), as(y, i64), axes), x)};
}

// Of three components along an axis.
Results cross_product(Arguments& a) {
  const Tensor x = a.tensor("self"), y = a.tensor("other");
  if (!a.ok()) return {};
  const Shape shape = broadcast_shape(x.shape(), y.shape());
  const Tensor p = broadcast_to(x, shape), q = broadcast_to(y, shape);
  const int at = a.axis("dim", p.rank(), -1);
  if (a.ok() && !same(p.extent(at), 3)) a.fail("an axis of another extent than 3");
  if (!a.ok()) return {};
  const auto turned = [&](const Tensor& each, int by) {
    return cat({slice(each, at, by, 3), slice(each, at, 0, by)}, at);
  };
  return {turned(p, 1) * turned(q, 2) - turned(p, 2) * turned(q, 1)};
}

// The norm of the difference.
Results distance_between(Arguments& a) {
  const Tensor x = a.tensor("self"), y = a.tensor("other");
  const double p = a.real("p", 2);
  if (!a.ok()) return {};
  const Tensor d = wide(x) - wide(y);
  return {like(distance(reshape(d, {product(d.shape())}), full({1}, 0, d.element()), p), x)};
}
Results distance_of_rows(Arguments& a) {
  const Tensor x = a.tensor("x1"), y = a.tensor("x2");
  const double p = a.real("p", 2), eps = a.real("eps", 1e-6);
  const bool keep = a.flag("keepdim", false);
  if (!a.ok()) return {};
  const Tensor d = wide(x) - wide(y) + eps;
  const Tensor out = distance(d, full({1}, 0, d.element()), p);
  return {as(keep ? reshape(out, inserted(out.shape(), out.rank(), 1)) : out, as_real(common(Term(x), Term(y))))};
}

constexpr Function kContractFunctions[] = {
    {"addbmm", matrix_sum},
    {"addmm", matrix_sum},
    {"addmv", matrix_sum},
    {"addr", vectors_sum},
    {"baddbmm", matrix_sum},
    {"bmm", matrix_product<2>},
    {"_cdist_forward", distances},
    {"cdist", distances},
    {"conv1d", convolution_of},
    {"conv1d.padding", convolution_by_word},
    {"conv2d", convolution_of},
    {"conv2d.padding", convolution_by_word},
    {"conv3d", convolution_of},
    {"conv3d.padding", convolution_by_word},
    {"conv_transpose1d", convolution_of},
    {"conv_transpose2d.input", convolution_of},
    {"conv_transpose3d.input", convolution_of},
    {"convolution", convolution_of},
    {"dot", vector_product},
    {"einsum", einsum_of},
    {"linear", linear_of},
    {"matmul", matrix_product<0>},
    {"mm", matrix_product<2>},
    {"mv", matrix_product<1>},
    {"outer", outer_product},
    {"_pdist_forward", distances_of_pairs},
    {"scaled_dot_product_attention", attention_of},
    {"_scaled_dot_product_efficient_attention", attention_with_sums},
    {"_scaled_dot_product_flash_attention", attention_with_sums},
    {"_scaled_dot_product_flash_attention_for_cpu", attention_with_sums},
    {"_scaled_dot_product_cudnn_attention", attention_with_sums},
    {"vdot", vector_product},
    {"dist", distance_between},
    {"linalg_cross", cross_product},
    {"pairwise_distance", distance_of_rows},
    {"tensordot", tensor_product},
};

}  // namespace

std::span<const Function> contract_functions() { return kContractFunctions; }

}  // namespace kiln::graph::aten
