#include "graph/random_graph.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "graph/generator.h"
#include "kiln/graph/extents.h"

namespace kiln::random_graph {
namespace {

using enum TensorOp;
using dsl::bits_from_double;
using dsl::bits_from_int;
using graph::Family;
using graph::kNoValue;

bool is_of(Kind kind, ElementType element) {
  const bool is_bool = element == ElementType::kI1;
  switch (kind) {
    case Kind::kAny:
      return true;
    case Kind::kNumbers:
      return !is_bool;
    case Kind::kFloats:
      return dsl::is_float(element);
    case Kind::kInts:
      return dsl::is_int(element) && !is_bool;
    case Kind::kIntsAndBools:
      return dsl::is_int(element);
  }
  return false;
}

uint64_t special(Random& random, ElementType element) {
  const dsl::ElementTypeInfo& info = dsl::info(element);
  const uint64_t all = info.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << info.bits) - 1;
  if (!info.is_float) {
    const uint64_t ends[] = {0, 1, all, all >> 1, (all >> 1) + 1};
    return random.pick(ends) & all;
  }
  const double numbers[] = {0.0, -0.0, NAN, INFINITY, -INFINITY, 1e300, -1e300, 0x1p-140};
  return random.chance(10) ? random.word() & all : bits_from_double(element, random.pick(numbers));
}

uint64_t plain(Random& random, ElementType element, double largest) {
  if (element == ElementType::kI1) return static_cast<uint64_t>(random.below(2));
  if (dsl::is_float(element)) return bits_from_double(element, (2 * random.uniform() - 1) * largest);
  const auto most = std::max<int64_t>(1, static_cast<int64_t>(largest));
  return bits_from_int(element, dsl::info(element).is_signed ? random.between(-most, most) : random.between(0, most));
}

}  // namespace

Generator::Generator(uint64_t seed, const Options& options)
    : random(seed), options_(options), builder_("g" + std::to_string(seed)) {
  file_ = builder_.add_file("random.cpp");
  for (const int64_t extent : {1, 2, 3, 4, 5}) extents_.emplace_back(extent);
  if (!options.symbolic) return;
  const graph::DimInfo dims[] = {{"n", 1, 6, 1}, {"m", 2, 8, 2}, {"z", 0, 3, 1}};
  for (const graph::DimInfo& dim : dims) {
    if (random.chance(25)) continue;
    auto number = builder_.add_dim(dim);
    if (!number) throw Fault(number.error().message);
    const int64_t size = random.between(dim.low, dim.high) / dim.multiple * dim.multiple;
    sizes_[dim.name] = size;
    dim_sizes_.emplace_back(size);
    const Expr expr = Expr::constexpr_ref(*number);
    extents_.push_back(expr);
    if (dim.low == 0) continue;  // once, the others more often
    for (const Expr& other : {expr, Expr(2) * expr, expr + Expr(1), graph::ceil_div(expr, 2)})
      extents_.push_back(other);
    if (dim.multiple == 2) extents_.push_back(Expr::apply(dsl::AtomKind::kDiv, expr, Expr(2)));
  }
}

// --- what tensors are of ---

ElementType Generator::element(Kind kind) {
  std::vector<ElementType> fits, wished;
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    const auto element = static_cast<ElementType>(i);
    if (!is_of(kind, element)) continue;
    fits.push_back(element);
    if (std::ranges::count(options_.elements, element) > 0) wished.push_back(element);
  }
  if (!wished.empty()) return random.pick(wished);
  if (options_.elements.empty() && is_of(kind, ElementType::kF32) && random.chance(30)) return ElementType::kF32;
  return random.pick(fits);
}

Expr Generator::extent() { return extent_from(1); }

Expr Generator::extent_from(int64_t least) {
  const Expr out = random.pick(extents_);
  const int64_t lacks = least - low(out);
  return lacks > 0 ? out + Expr(lacks) : out;
}

Shape Generator::shape(int low_rank, int high_rank) {
  Shape out;
  const int64_t rank = random.between(low_rank, high_rank);
  while (static_cast<int64_t>(out.size()) < rank) {
    out.push_back(random.chance(85) ? extent() : random.pick(extents_));
    if (count(out) > 300) out.back() = Expr(1);
  }
  return out;
}

int64_t Generator::low(const Expr& expr) const { return graph::interval(builder_.graph().dims, expr).low; }

int64_t Generator::size(const Expr& expr) const {
  auto number = expr.evaluate({dim_sizes_, {}});
  if (!number) throw Fault(number.error().message);
  return *number;
}

int64_t Generator::count(const Shape& shape) const {
  int64_t out = 1;
  for (const Expr& extent : shape) out = std::min<int64_t>(out * size(extent), int64_t{1} << 31);
  return out;
}

// --- tensors ---

ValueId Generator::tensor(const Want& want) {
  std::vector<ValueId> there;
  for (ValueId id = 0; id < builder_.body().values.size(); ++id) {
    const TensorType& has = type(id);
    bool fits = is_of(want.kind, has.element) && has.rank() >= want.low_rank && has.rank() <= want.high_rank &&
                count(has.shape) <= 400;
    for (const Expr& extent : has.shape) fits = fits && (!want.some || low(extent) >= 1);
    if (fits) there.push_back(id);
  }
  // The last ones more often: long chains, not bushes.
  if (!there.empty() && random.chance(75)) {
    if (there.size() > 4 && random.chance(60)) there.erase(there.begin(), there.end() - 4);
    return random.pick(there);
  }
  Shape made = shape(want.low_rank, want.high_rank);
  for (Expr& extent : made) {
    if (want.some && low(extent) < 1) extent = extent + Expr(1);
  }
  return new_value({element(want.kind), std::move(made)});
}

ValueId Generator::value(const TensorType& wanted) {
  std::vector<ValueId> there;
  for (ValueId id = 0; id < builder_.body().values.size(); ++id) {
    if (type(id) == wanted) there.push_back(id);
  }
  return !there.empty() && random.chance(80) ? random.pick(there) : new_value(wanted);
}

ValueId Generator::new_value(const TensorType& wanted) {
  constexpr int kMostInputs = 10;
  if (in_main() && inputs_ < kMostInputs && random.chance(85)) {
    auto made = builder_.add_input("x" + std::to_string(inputs_++), wanted, {file_, ++line_, 1});
    if (!made) throw Fault(made.error().message);
    return *made;
  }
  if (!wanted.shape.empty() && wanted.element != ElementType::kI1 && random.chance(40)) {
    return op(kIota, {}, {wanted.element, wanted.shape, random.below(wanted.rank())});
  }
  const double number =
      wanted.element == ElementType::kI1 ? static_cast<double>(random.below(2)) : 1 + random.uniform();
  return full(wanted.element, wanted.shape, number);
}

ValueId Generator::full(ElementType element, Shape shape, double number) {
  return op(kFull, {}, {element, std::move(shape), graph::Literal{bits_from_double(element, number)}});
}

ValueId Generator::index(Shape shape, int64_t limit, bool from_end) {
  const ElementType ints[] = {ElementType::kI32, ElementType::kI64, ElementType::kU8, ElementType::kI16};
  const ElementType element = random.pick(ints);
  const ValueId any = value(element, shape);
  const ValueId within = op(kRem, {any, full(element, shape, static_cast<double>(limit))});
  return from_end || !dsl::info(element).is_signed ? within : op(kAbs, {within});
}

ValueId Generator::not_negative(const TensorType& wanted) { return op(kAbs, {value(wanted)}); }

// --- nodes ---

ValueId Generator::op(TensorOp op, std::vector<ValueId> operands, AttrList attrs) {
  auto made = builder_.add(op, operands, std::move(attrs), {file_, ++line_, static_cast<uint32_t>(1 + depth_)});
  if (!made) throw Fault(made.error().message);
  return made->first;
}

graph::BodyId Generator::body(const std::string& name, const std::vector<TensorType>& inputs,
                              const std::function<std::vector<ValueId>(const std::vector<ValueId>&)>& fill) {
  builder_.open_body(name);
  ++depth_;
  std::vector<ValueId> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto value = builder_.add_input("a" + std::to_string(i), inputs[i]);
    if (!value) throw Fault(value.error().message);
    values.push_back(*value);
  }
  const std::vector<ValueId> outputs = fill(values);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (auto added = builder_.add_output("r" + std::to_string(i), outputs[i]); !added)
      throw Fault(added.error().message);
  }
  --depth_;
  return builder_.close_body();
}

bool Generator::allowed(TensorOp op) const {
  constexpr int kMostDepth = 2;
  const graph::OpInfo& row = graph::info(op);
  if (row.has(graph::kBody) && (!options_.bodies || depth_ >= kMostDepth)) return false;
  if (row.family == Family::kKernel && !options_.kernels) return false;
  return !options_.may || options_.may(op);
}

void Generator::apply(TensorOp op) {
  const graph::OpInfo& row = graph::info(op);
  switch (row.family) {
    case Family::kMake:
    case Family::kElementwise:
    case Family::kView:
    case Family::kCat:
      return make_plain(*this, op);
    case Family::kControl:
    case Family::kKernel:
      return make_with_body(*this, op);
    case Family::kReduce:
    case Family::kScan:
      return row.has(graph::kBody) ? make_with_body(*this, op) : make_indexed(*this, op);
    case Family::kIndex:
    case Family::kOrder:
      return make_indexed(*this, op);
    default:
      return make_layer(*this, op);
  }
}

void Generator::grow(int nodes) {
  std::vector<TensorOp> ops;
  for (int i = 0; i < graph::kTensorOpCount; ++i) {
    if (allowed(static_cast<TensorOp>(i))) ops.push_back(static_cast<TensorOp>(i));
  }
  for (int i = 0; i < nodes && !ops.empty(); ++i) apply(random.pick(ops));
}

void Generator::finish() {
  const graph::Body& body = builder_.body();
  std::vector<bool> used(body.values.size(), false);
  for (const ValueId operand : body.operands) {
    if (operand != kNoValue) used[operand] = true;
  }
  std::vector<ValueId> outputs;
  for (ValueId id = 0; id < body.values.size(); ++id) {
    const bool computed = body.values[id].node != graph::kNone;
    if ((computed && !used[id]) || random.chance(5)) outputs.push_back(id);
  }
  if (outputs.empty()) outputs.push_back(tensor({}));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (auto added = builder_.add_output("y" + std::to_string(i), outputs[i]); !added)
      throw Fault(added.error().message);
    if (builder_.body().values[outputs[i]].node != graph::kNone && random.chance(30))
      builder_.set_name(outputs[i], "named");
  }
  std::set<uint32_t> given;
  for (uint32_t i = 0; options_.donations && i < builder_.body().inputs.size(); ++i) {
    for (uint32_t k = 0; k < outputs.size(); ++k) {
      const TensorType &from = type(builder_.body().inputs[i].value), &to = type(outputs[k]);
      if (!(from == to) || given.contains(k) || !random.chance(30)) continue;
      if (auto donated = builder_.donate(i, k); !donated) throw Fault(donated.error().message);
      given.insert(k);
      break;
    }
  }
}

Case Generator::run() {
  for (const TensorOp op : options_.first) apply(op);
  grow(options_.nodes);
  finish();
  return {builder_.take(), std::move(sizes_)};
}

Result<Case> make(uint64_t seed, const Options& options) {
  try {
    return Generator(seed, options).run();
  } catch (const Fault& fault) {
    return internal_error("random graph " + std::to_string(seed) + ": " + fault.what());
  }
}

bool is_comparable(TensorOp op) {
  return graph::info(op).family != Family::kOrder && op != kBitcast && op != kQuantise && op != kSignbit &&
         op != kCopysign;
}

std::map<std::string, int64_t> draw_sizes(const graph::Graph& graph, std::mt19937_64& random) {
  std::map<std::string, int64_t> out;
  for (const graph::DimInfo& dim : graph.dims) {
    const int64_t first = (dim.low + dim.multiple - 1) / dim.multiple, last = dim.high / dim.multiple;
    out[dim.name] =
        (first + static_cast<int64_t>(random() % static_cast<uint64_t>(std::min<int64_t>(last - first, 8) + 1))) *
        dim.multiple;
  }
  return out;
}

std::string sizes_text(const Case& made) {
  std::string out;
  for (const auto& [name, size] : made.sizes) out += ", " + name + " = " + std::to_string(size);
  return out;
}

std::vector<graph::Array> inputs(const Case& made, uint64_t seed, const Content& content) {
  Random random(seed);
  dsl::Bindings sizes;
  for (const graph::DimInfo& dim : made.graph.dims) sizes.constexprs.emplace_back(made.sizes.at(dim.name));
  std::vector<graph::Array> out;
  for (const graph::Input& input : made.graph.main().inputs) {
    const TensorType& type = made.graph.type(made.graph.main(), input.value);
    std::vector<int64_t> shape;
    for (const Expr& extent : type.shape) shape.push_back(extent.evaluate(sizes).value());
    graph::Array array = graph::own(type.element, std::move(shape));
    for (int64_t i = 0; i < array.count(); ++i) {
      graph::set_bits(array, i,
                      random.chance(content.percent_special) ? special(random, type.element)
                                                             : plain(random, type.element, content.largest));
    }
    out.push_back(std::move(array));
  }
  return out;
}

}  // namespace kiln::random_graph
