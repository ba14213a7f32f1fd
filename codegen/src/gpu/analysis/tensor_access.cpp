#include "gpu/analysis/tensor_access.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kiln::codegen::gpu {
namespace {

using dsl::AtomKind;
using dsl::Expr;
using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

// What the engine asks of addresses, of strides, and of the innermost coordinate times the element (which the
// documentation does not say: an H200 stops with an illegal instruction where it is none).
constexpr int64_t kAlignment = 16;
// Without a bound; coordinates are i32. Extents up to 2^32 are encoded, but an H200 does not take 2^32. An element that
// is 2^31-1 further along such a dimension would be out of reach.
constexpr int64_t kUnbounded = INT32_MAX;

Error no(std::string why) { return invalid_argument(std::move(why)); }

// The bounds of one axis of the tile: 0 ≤ start + coordinate where there is a lower one, and … < extent.
struct Bounds {
  std::optional<Linear> upper_start, lower_start;  // uniform
  Expr extent;
};

Linear uniform_part(const Linear& form) { return {form.host, form.program, {}}; }

class Recogniser {
 public:
  Recogniser(const dsl::Kernel& kernel, const Op& op, LinearForms& forms)
      : kernel_(kernel),
        op_(op),
        forms_(forms),
        type_(kernel.type(op.operands[0])),
        shape_(dsl::concrete_shape(type_)),
        bounds_(shape_.size()),
        axis_of_(all_axes()) {}

  Result<TensorAccess> run() {
    const bool is_load = op_.code == OpCode::kLoad;
    if (shape_.empty()) return no("a scalar");
    if (!kernel_.type(is_load ? op_.results[0] : op_.operands[1]).is_value()) return no("a tile of pointers");
    if (type_.element == dsl::ElementType::kI1) return no("a tile of i1");
    if (auto done = read_pointer(op_.operands[0]); !done) return done.error();
    const size_t mask = is_load ? 1 : 2;
    if (op_.operands.size() > mask) {
      if (auto done = read_mask(op_.operands[mask]); !done) return done.error();
    }
    if (is_load && op_.operands.size() > 2) {
      if (auto done = read_fill(op_.operands[2]); !done) return done.error();
    }
    if (auto done = make_dims(); !done) return done.error();
    if (auto done = check(); !done) return done.error();
    return out_;
  }

 private:
  // ---- the pointer ----

  Result<void> read_pointer(ValueId id) {
    pointer_.axes.resize(shape_.size());
    for (const Op* op = forms_.definition(id); op; op = forms_.definition(id)) {
      switch (op->code) {
        case OpCode::kAddptr: {
          const auto index = forms_.of(op->operands[1]);
          if (!index) return no("the pointer is not linear in the coordinates of the tile");
          pointer_ = pointer_ + in_tile(*index);
          break;
        }
        case OpCode::kExpandDims:
          axis_of_.erase(axis_of_.begin() + int_attr(*op, 0));
          break;
        case OpCode::kSplat:
        case OpCode::kBroadcast:
          break;
        default:
          return no("the pointer is made by " + std::string(dsl::info(op->code).name));
      }
      id = op->operands[0];
    }
    axis_of_ = all_axes();
    const auto param = std::ranges::find(kernel_.params, id, &dsl::Param::value);
    if (param == kernel_.params.end()) return no("the pointer is based on no parameter");
    out_.param = static_cast<uint32_t>(param - kernel_.params.begin());
    return {};
  }

  // ---- the mask: conjunctions, seen through views ----

  Result<void> read_mask(ValueId id) {
    const Op* op = forms_.definition(id);
    if (!op) return no("the mask is not known to be bounds");
    switch (op->code) {
      case OpCode::kConstant:
        if (std::get<dsl::Literal>(op->attrs[0]).bits == 0) return no("the mask is nowhere true");
        return {};
      case OpCode::kAnd: {
        if (auto done = read_mask(op->operands[0]); !done) return done;
        return read_mask(op->operands[1]);
      }
      case OpCode::kSplat:
        return read_mask(op->operands[0]);
      case OpCode::kBroadcast:
      case OpCode::kExpandDims:
        return read_view(*op);
      case OpCode::kCmp:
        return read_comparison(*op);
      default:
        return no("the mask is made by " + std::string(dsl::info(op->code).name));
    }
  }

  Result<void> read_view(const Op& op) {
    const std::vector<int> before = axis_of_;
    if (op.code == OpCode::kExpandDims) axis_of_.erase(axis_of_.begin() + int_attr(op, 0));
    auto done = read_mask(op.operands[0]);
    axis_of_ = before;
    return done;
  }

  Result<void> read_comparison(const Op& op) {
    auto a = forms_.of(op.operands[0]), b = forms_.of(op.operands[1]);
    if (!a || !b) return no("the mask compares what is not linear in the coordinates of the tile");
    auto predicate = static_cast<dsl::Predicate>(int_attr(op, 0));
    if (predicate == dsl::Predicate::kGt || predicate == dsl::Predicate::kGe) {
      std::swap(a, b);
      predicate = predicate == dsl::Predicate::kGt ? dsl::Predicate::kLt : dsl::Predicate::kLe;
    }
    if (predicate != dsl::Predicate::kLt && predicate != dsl::Predicate::kLe) return no("the mask is no bound");
    if (predicate == dsl::Predicate::kLe) b->host = b->host + Expr(1);
    return add_bound(in_tile(*a), in_tile(*b), !dsl::info(kernel_.type(op.operands[0]).element).is_signed);
  }

  std::vector<int> all_axes() const {
    std::vector<int> out(shape_.size());
    std::iota(out.begin(), out.end(), 0);
    return out;
  }

  // Of a tile inside views: by axes of the access.
  Linear in_tile(const Linear& form) const {
    Linear out = uniform_part(form);
    out.axes.resize(shape_.size());
    for (size_t i = 0; i < form.axes.size(); ++i) out.axes[static_cast<size_t>(axis_of_[i])] = form.axes[i];
    return out;
  }

  // a < b
  Result<void> add_bound(const Linear& a, const Linear& b, bool is_unsigned) {
    const Linear distance = b - a;
    std::vector<size_t> axes;
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      if (!distance.axes[axis].terms().empty()) axes.push_back(axis);
    }
    if (axes.size() > 1) return no("the mask compares two axes of the tile");
    if (axes.empty()) {
      if (is_unsigned && (forms_.range(uniform_part(a)).low < 0 || forms_.range(uniform_part(b)).low < 0)) {
        return no("the mask compares unsigned numbers");
      }
      Linear guard = uniform_part(distance);
      guard.host = guard.host - Expr(1);
      out_.guards.push_back(guard);
      return {};
    }
    Bounds& bounds = bounds_[axes[0]];
    const Expr& factor = distance.axes[axes[0]];
    if (factor == Expr(-1)) {
      // Unsigned, what is negative is beyond every extent.
      if (is_unsigned && forms_.range(b.host).low < 0) return no("the mask compares unsigned numbers");
      Linear start = uniform_part(a) - Linear{{}, b.program, {}};
      if (is_unsigned) bounds.lower_start = start;
      return add_upper(bounds, start, b.host);
    }
    if (factor == Expr(1) && !is_unsigned) return add_lower(bounds, uniform_part(distance) - Linear{Expr(1), {}, {}});
    return no("the mask is no bound of an axis");
  }

  static Result<void> add_upper(Bounds& bounds, const Linear& start, const Expr& extent) {
    if (!bounds.upper_start) {
      bounds.upper_start = start;
      bounds.extent = extent;
      return {};
    }
    const Linear distance = start - *bounds.upper_start;
    if (!distance.is_host()) return no("two bounds of an axis begin at different places");
    const Expr other = extent - distance.host;
    if (!(other == bounds.extent)) bounds.extent = Expr::apply(AtomKind::kMin, bounds.extent, other);
    return {};
  }

  static Result<void> add_lower(Bounds& bounds, const Linear& start) {
    if (bounds.lower_start && !(*bounds.lower_start == start)) return no("an axis has two lower bounds");
    bounds.lower_start = start;
    return {};
  }

  // ---- what a load has outside ----

  Result<void> read_fill(ValueId id) {
    const Op* op = forms_.definition(id);
    while (op && (op->code == OpCode::kSplat || op->code == OpCode::kBroadcast))
      op = forms_.definition(op->operands[0]);
    if (!op || op->code != OpCode::kConstant) return no("what is masked off is not 0");
    const uint64_t bits = std::get<dsl::Literal>(op->attrs[0]).bits;
    if (bits == 0) return {};
    // The NaN that descriptors fill with. The engine knows no f8.
    const auto& info = dsl::info(type_.element);
    const uint64_t nan = dsl::bits_from_double(type_.element, std::numeric_limits<double>::quiet_NaN());
    out_.fills_nan = info.is_float && info.bytes > 1 && bits == nan;
    if (!out_.fills_nan) return no("what is masked off is not 0");
    return {};
  }

  // ---- dimensions ----

  Result<void> make_dims() {
    rest_ = uniform_part(pointer_);
    std::vector<int> order;  // axes, the innermost first
    for (int axis = static_cast<int>(shape_.size()) - 1; axis >= 0; --axis) {
      if (shape_[static_cast<size_t>(axis)] > 1) order.push_back(axis);
    }
    const auto is_innermost = [&](int axis) { return pointer_.axes[static_cast<size_t>(axis)] == Expr(1); };
    const auto innermost = std::ranges::find_if(order, is_innermost);
    if (innermost == order.end()) return no("no axis of the tile has a stride of 1");
    std::rotate(order.begin(), innermost, innermost + 1);
    for (int axis : order) {
      if (auto done = add_axis(axis); !done) return done;
    }
    give_rest_to_axes();
    for (const auto& [id, factor] : rest_.program) add_program_term(id, factor);
    out_.offset = rest_.host;
    for (const TensorDim& dim : out_.dims) {
      if (dim.is_bounded && forms_.range(dim.extent).low < 1) note_empty(dim.extent);
    }
    return {};
  }

  Result<void> add_axis(int axis) {
    const Bounds& bounds = bounds_[static_cast<size_t>(axis)];
    TensorDim dim;
    dim.axis = axis;
    dim.stride = pointer_.axes[static_cast<size_t>(axis)];
    dim.extent = Expr(kUnbounded);
    if (bounds.lower_start && !bounds.upper_start) return no("an axis has a lower bound alone");
    if (bounds.upper_start) {
      dim.is_bounded = true;
      dim.coordinate = bounds.lower_start.value_or(*bounds.upper_start);
      const Linear distance = dim.coordinate - *bounds.upper_start;
      if (!distance.is_host()) return no("the bounds of an axis begin at different places");
      dim.extent = bounds.extent + distance.host;
      rest_ = rest_ - dim.coordinate * dim.stride;
      if (!bounds.lower_start && forms_.range(dim.coordinate).low < 0) {
        return no("the place along axis " + std::to_string(axis) +
                  " may be negative: " + to_string(dim.coordinate, kernel_));
      }
    }
    out_.dims.push_back(std::move(dim));
    return {};
  }

  // What moves the pointer by whole strides of an axis without bounds is part of its coordinate.
  void give_rest_to_axes() {
    const std::map<ValueId, Expr> terms = rest_.program;
    for (const auto& [id, factor] : terms) {
      TensorDim* best = nullptr;
      int64_t best_times = 0;
      for (TensorDim& dim : out_.dims) {
        const int64_t times = dim.is_bounded ? 0 : multiple(factor, dim.stride);
        if (times > 0 && (!best || times < best_times)) best = &dim, best_times = times;
      }
      if (!best) continue;
      best->coordinate.program[id] = Expr(best_times);
      if (fits_without_bounds(*best))
        rest_.program.erase(id);
      else
        best->coordinate.program.erase(id);  // as a dimension of its own it may fit
    }
  }

  bool fits_without_bounds(const TensorDim& dim) const {
    const LinearForms::Range range = forms_.range(dim.coordinate);
    return range.low >= 0 && range.high <= kUnbounded;
  }

  // n where x = n·y for a number n, else 0.
  static int64_t multiple(const Expr& x, const Expr& y) {
    if (x.terms().empty() || y.terms().empty()) return 0;
    const int64_t times = x.terms()[0].coefficient / y.terms()[0].coefficient;
    return y * Expr(times) == x ? times : 0;
  }

  void add_program_term(ValueId id, const Expr& factor) {
    const auto same =
        std::ranges::find_if(out_.dims, [&](const TensorDim& dim) { return !dim.axis && dim.stride == factor; });
    TensorDim& dim = same != out_.dims.end() ? *same : out_.dims.emplace_back();
    dim.stride = factor;
    dim.extent = Expr(kUnbounded);
    dim.coordinate.program[id] = Expr(1);
  }

  // A dimension has one element or more; where it should have none, nothing is accessed.
  void note_empty(const Expr& extent) {
    Linear guard{extent - Expr(1), {}, {}};
    if (std::ranges::find(out_.guards, guard) == out_.guards.end()) out_.guards.push_back(guard);
  }

  // ---- limits ----

  Result<void> check() {
    if (out_.dims.size() > kMaxTensorRank) return no("more than five dimensions");
    const int64_t bytes = dsl::info(type_.element).bytes;
    const auto is_aligned = [&](int64_t elements) { return elements * bytes % kAlignment == 0; };
    if (forms_.info(kernel_.params[out_.param].value).multiple_of % kAlignment != 0) {
      return no("the parameter `" + kernel_.params[out_.param].name + "` may not be aligned to 16 bytes");
    }
    if (!is_aligned(forms_.multiple_of(out_.offset))) {
      return no("the offset may be no multiple of 16 bytes: " + dsl::to_string(out_.offset, kernel_.expr_names()));
    }
    if (!is_aligned(forms_.multiple_of(out_.dims[0].coordinate))) {
      return no("the innermost coordinate may be no multiple of 16 bytes: " +
                to_string(out_.dims[0].coordinate, kernel_));
    }
    // An H200 clips what it stores to whole 16 bytes: the elements behind the bound would be written too.
    const TensorDim& innermost = out_.dims[0];
    if (op_.code == OpCode::kStore && innermost.is_bounded && !is_aligned(forms_.multiple_of(innermost.extent))) {
      return no("the innermost extent of a store may be no multiple of 16 bytes: " +
                dsl::to_string(innermost.extent, kernel_.expr_names()));
    }
    for (TensorDim& dim : out_.dims) {
      if (auto done = check(dim, &dim == &out_.dims[0] || is_aligned(forms_.multiple_of(dim.stride))); !done)
        return done;
    }
    if (!std::ranges::all_of(out_.guards, [](const Linear& guard) { return is_polynomial(guard); })) {
      return no("a bound of the whole tile is not linear in parameters");
    }
    return {};
  }

  Result<void> check(TensorDim& dim, bool is_aligned) {
    const std::string stride = dsl::to_string(dim.stride, kernel_.expr_names());
    if (!is_aligned) return no("the stride may be no multiple of 16 bytes: " + stride);
    const auto factor = dim.stride.as_constant();
    if (factor && *factor <= 0) return no("the stride is not above 0: " + stride);
    if (!is_polynomial(dim.coordinate)) return no("a coordinate is not linear in parameters");
    const LinearForms::Range range = forms_.range(dim.coordinate);
    if (dim.is_bounded) {
      dim.fits_i32 = range.low >= INT32_MIN && range.high <= INT32_MAX;
      if (forms_.range(dim.extent).high <= kUnbounded) return {};
      return no("the extent may not fit 32 bits: " + dsl::to_string(dim.extent, kernel_.expr_names()));
    }
    if (fits_without_bounds(dim)) return {};
    return no("a coordinate without bounds may be negative or beyond 32 bits: " + to_string(dim.coordinate, kernel_));
  }

  const dsl::Kernel& kernel_;
  const Op& op_;
  LinearForms& forms_;
  const dsl::Type& type_;
  const std::vector<int64_t> shape_;
  std::vector<Bounds> bounds_;  // by axis
  std::vector<int> axis_of_;    // of the view that is being read: which axis of the access each of its axes is
  Linear pointer_;              // elements from the parameter
  Linear rest_;                 // what of it is in no dimension yet
  TensorAccess out_;
};

}  // namespace

Result<TensorAccess> find_tensor_access(const dsl::Kernel& kernel, const Op& access, LinearForms& forms) {
  return Recogniser(kernel, access, forms).run();
}

std::string to_string(const TensorAccess& access, const dsl::Kernel& kernel) {
  const auto text = [&](const Expr& expr) { return dsl::to_string(expr, kernel.expr_names()); };
  std::string out = kernel.params[access.param].name;
  if (!access.offset.terms().empty()) out += " + " + text(access.offset);
  for (const TensorDim& dim : access.dims) {
    out += "; " + (dim.is_bounded ? text(dim.extent) : std::string("any")) + " by " + text(dim.stride) + " at " +
           to_string(dim.coordinate, kernel) + (dim.axis ? " (axis " + std::to_string(*dim.axis) + ")" : "");
  }
  for (const Linear& guard : access.guards) out += "; if " + to_string(guard, kernel) + " >= 0";
  if (access.fills_nan) out += "; else NaN";
  return out;
}

}  // namespace kiln::codegen::gpu
