// Positions, masks and gates around attention; its caches.
#include <cmath>

#include "decompose/decompositions.h"
#include "kiln/graph/sequences.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

// i64 [M, N]: how far each key lies behind each query; queries are the last places of the keys.
Tensor distances(const Dim& queries, const Dim& keys) {
  return iota(i64, {queries, keys}, 0) + extent(keys - queries) - iota(i64, {queries, keys}, 1);
}

Tensor activated(const Tensor& x, GateKind kind) {
  switch (kind) {
    case GateKind::kSwiglu:
      return silu(x);
    case GateKind::kGeglu:
      return gelu(x);
    case GateKind::kReglu:
      return relu(x);
    case GateKind::kGlu:
      return sigmoid(x);
  }
  return x;
}

}  // namespace

RopeTables rope_tables(Operand positions, int64_t width, double base) {
  Call call("rope_tables", positions);
  const Tensor at = call.tensor(positions);
  if (call.ok() && call.rank(at) != 1) call.fail("positions are " + call.text(at) + ", not [N]");
  if (call.ok() && (width < 2 || width % 2 != 0)) call.fail("a width of " + std::to_string(width) + " has no pairs");
  if (call.ok() && !(base > 0)) call.fail("the base is not above 0");
  if (!call.ok()) return {};
  const Trace::LineScope line(positions.loc());
  std::vector<double> rates;
  for (int64_t i = 0; i < width / 2; ++i) {
    rates.push_back(std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(width)));
  }
  const ElementType type = at.element() == f64 ? f64 : f32;
  const Tensor angles = expand_dims(cast(at, type), 1) * constant(type, {width / 2}, rates);
  return {cos(angles), sin(angles)};
}

Tensor rope_partial(Operand x, const RopeTables& tables, bool interleaved) {
  Call call("rope_partial", x);
  const Tensor from = call.float_tensor(x);
  if (!call.ok() || !tables.cos.valid()) return {};
  const Trace::LineScope line(x.loc());
  const Dim turned = tables.cos.extent(-1) * 2, width = from.extent(-1);
  if (always_equal(turned, width)) return rope(from, tables.cos, tables.sin, interleaved);
  const Tensor front = rope(slice(from, -1, 0, turned), tables.cos, tables.sin, interleaved);
  return cat({front, slice(from, -1, turned, width)}, -1);
}

// Of a power of 2 a geometric series; else those of the power below, then every other one of the power above.
std::vector<double> alibi_slopes(int64_t heads) {
  std::vector<double> out;
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  for (int64_t i = 1; i <= std::min(power, heads); ++i) {
    out.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
  }
  for (int64_t i = 1; static_cast<int64_t>(out.size()) < heads; i += 2) {
    out.push_back(std::exp2(-4.0 * static_cast<double>(i) / static_cast<double>(power)));
  }
  return out;
}

Tensor alibi(int64_t heads, Dim queries, Dim keys, ElementType type, SourceLocation loc) {
  Call call("alibi", loc);
  if (heads < 1) call.fail(std::to_string(heads) + " heads");
  if (!dsl::is_float(type)) call.fail("a mask that is added is of floats");
  if (!call.ok()) return {};
  const Trace::LineScope line(loc);
  const Tensor slopes = constant(type, {heads, 1, 1}, alibi_slopes(heads));
  return -slopes * cast(abs(distances(queries, keys)), type);
}

Tensor window_mask(Dim queries, Dim keys, int64_t window, int64_t sinks, SourceLocation loc) {
  Call call("window_mask", loc);
  if (window < 1 || sinks < 0) call.fail("a window below 1, or fewer than 0 sinks");
  if (!call.ok()) return {};
  const Trace::LineScope line(loc);
  const Tensor behind = distances(queries, keys);
  return ((behind >= 0) & (behind < window)) | ((behind >= 0) & (iota(i64, {queries, keys}, 1) < sinks));
}

Tensor length_mask(Operand lengths, Dim keys) {
  Call call("length_mask", lengths);
  const Tensor known = call.tensor(lengths);
  if (call.ok() && call.rank(known) != 1) call.fail("lengths are " + call.text(known) + ", not [B]");
  if (!call.ok()) return {};
  const Trace::LineScope line(lengths.loc());
  return reshape(arange(keys), {1, 1, 1, keys}) < reshape(cast(known, i64), {known.extent(0), 1, 1, 1});
}

// One more key of zeros, whose score is the sink's, and one more value of zeros.
Tensor attention_with_sinks(Operand q, Operand k, Operand v, Operand sinks, bool causal, double scale) {
  Call call("attention_with_sinks", q);
  const std::vector<Tensor> operands = call.promoted({&q, &k, &v, &sinks}, true);
  if (call.ok()) {
    for (size_t i = 0; i < 4 && call.ok(); ++i) {
      if (call.rank(operands[i]) == (i < 3 ? 4 : 1)) continue;
      call.fail(call.text(operands[i]) + (i < 3 ? " is not [B, heads, places, D]" : " is not [H]"));
    }
  }
  if (!call.ok()) return {};
  const Trace::LineScope line(q.loc());
  const Tensor queries = operands[0], keys = operands[1], values = operands[2];
  const Dim h = queries.extent(1), m = queries.extent(2), n = keys.extent(2);
  const auto with_one = [](const Tensor& x) { return pad(x, {0, 0, 1, 0}, {0, 0, 0, 0}); };
  const Tensor sink = broadcast_to(reshape(operands[3], {1, h, 1, 1}), {1, h, m, 1});
  Tensor seen = zeros(sink.element(), {1, h, m, n});
  if (causal) seen = where(distances(m, n) >= 0, seen, -INFINITY);
  return attention(queries, with_one(keys), with_one(values), {.scale = scale}, cat({sink, seen}, 3));
}

Tensor gated(Operand x, GateKind kind) {
  Call call("gated", x);
  const Tensor from = call.float_tensor(x);
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const std::vector<Tensor> halves = split(from, 2, -1);
  return activated(halves[0], kind) * halves[1];
}

Tensor gated_linear(Operand x, Operand w, GateKind kind, Operand bias) {
  const Trace::LineScope line(x.loc());
  return gated(linear(x, w, bias), kind);
}

namespace {

// Where tokens [B, G, M, D] go: the page and the place in it, i64 [B, M].
struct Places {
  Tensor page, slot;
};
Places places_behind(const Tensor& table, const Tensor& lengths, const Dim& tokens, const Dim& page) {
  const Dim batch = table.extent(0);
  const Tensor place = reshape(cast(lengths, i64), {batch, 1}) + iota(i64, {batch, tokens}, 1);
  const Tensor size = extent(page);
  return {cast(gather(table, place / size, 1), i64), place % size};
}

// What append_pages is given, checked.
struct Append {
  Tensor pages, table, lengths, tokens;
};
std::optional<Append> checked(Call& call, const Tensor& pages, const Operand& table, const Operand& lengths,
                              const Operand& tokens) {
  Append out{pages, call.tensor(table), call.tensor(lengths), call.tensor(tokens)};
  const auto must_be = [&](const Tensor& x, int rank, const char* form) {
    if (call.ok() && call.rank(x) != rank) call.fail(call.text(x) + " is not " + form);
  };
  must_be(out.pages, 4, "[P, G, S, D], which pages are");
  must_be(out.table, 2, "[B, pages], which the table is");
  must_be(out.lengths, 1, "[B], which lengths are");
  must_be(out.tokens, 4, "[B, G, M, D], which tokens are");
  if (!call.ok()) return std::nullopt;
  return out;
}

// Values [B, M, G, …] at their places of all heads.
Tensor put(const Tensor& pages, const Places& at, const Tensor& values) {
  return index_put(pages, {at.page, at.slot}, {0, 2}, values);
}

}  // namespace

Tensor append_pages(Operand pages, Operand table, Operand lengths, Operand tokens) {
  Call call("append_pages", pages);
  const auto given = checked(call, call.tensor(pages), table, lengths, tokens);
  if (!given) return {};
  const Trace::LineScope line(pages.loc());
  const Places at = places_behind(given->table, given->lengths, given->tokens.extent(2), given->pages.extent(2));
  return put(given->pages, at, transpose(cast(given->tokens, given->pages.element()), 1, 2));
}

QuantisedPages append_pages(const QuantisedPages& pages, Operand table, Operand lengths, Operand tokens) {
  Call call("append_pages", tokens);
  const auto given = checked(call, call.tensor(Operand(pages.pages, call.loc())), table, lengths, tokens);
  const Tensor scales = call.tensor(Operand(pages.scales, call.loc()));
  if (!given || !call.ok()) return {};
  const ElementType type = given->pages.element();
  const bool is_f8 = type == f8e4m3 || type == f8e5m2;
  if (!is_f8 && type != i8) call.fail("pages are " + call.text(given->pages) + ", neither i8 nor f8");
  if (call.rank(scales) != 3) call.fail("scales are " + call.text(scales) + ", not [P, G, S]");
  if (!call.ok()) return {};
  const Trace::LineScope line(tokens.loc());
  const Places at = places_behind(given->table, given->lengths, given->tokens.extent(2), given->pages.extent(2));
  const Tensor x = transpose(cast(given->tokens, f32), 1, 2);  // [B, M, G, D]
  const double most = type == i8 ? 127 : type == f8e4m3 ? 448 : 57344;
  const Tensor greatest = reduce_max(abs(x), {-1});
  const Tensor scale = where(greatest == 0, 1.0, greatest / most);
  const Tensor whole = x / expand_dims(scale, -1);
  const Tensor values = cast(is_f8 ? whole : round(whole), type);
  return {put(given->pages, at, values), put(scales, at, scale)};
}

Tensor dequantise_pages(const QuantisedPages& pages, ElementType type) {
  return cast(cast(pages.pages, f32) * expand_dims(pages.scales, -1), type);
}

}  // namespace kiln::graph
