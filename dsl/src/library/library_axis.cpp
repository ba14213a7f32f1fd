// Functions along an axis: softmax and its kin, means, norms.
#include "library/library_helpers.h"

namespace kiln::dsl::lang {

Value along_axis(Value x, int64_t axis, int rank) {
  for (int i = 0; i < rank; ++i) {
    if (i != axis) x = expand_dims(x, i);
  }
  return x;
}

namespace {

// A float tile, the axis that a function runs along, and the lanes that count.
class Axis {
 public:
  Axis(const Value& x, int64_t axis, const Value& mask, Accuracy accuracy)
      : x_(x), axis_(axis), mask_(mask), accuracy_(accuracy) {}

  int at() const { return static_cast<int>(axis_); }
  // As accurate as the type of the result can tell.
  Value exponential(const Value& x) const { return exp(x, accuracy_); }
  // What a reduction along the axis gave, for arithmetic with the tile.
  Value back(const Value& reduced) const { return x_.rank() == 1 ? reduced : expand_dims(reduced, at()); }
  // The tile, or one of its shape, with 0 in the lanes that do not count.
  Value counted(const Value& x) const { return mask_.valid() ? where(mask_, x, 0) : x; }
  Value total(const Value& x) const { return sum(counted(x), at()); }
  Value count() const {
    if (mask_.valid()) return cast(sum(mask_, at()), x_.element());
    return cast(materialise(Operand(x_.extent(at()))), x_.element());
  }
  // A number of the tile's type; a weight or bias of rank 1 that runs along the axis.
  Value spread(const Operand& weight) const {
    Value value = as_value(weight, x_.element());
    if (!value.valid()) return {};
    value = cast(value, x_.element());
    return value.rank() == 1 && x_.rank() > 1 ? along_axis(value, axis_, x_.rank()) : value;
  }

 private:
  Value x_;
  int64_t axis_;
  Value mask_;
  Accuracy accuracy_;
};

// Computes in floats of 32 bits or more, along an axis; the result is rounded to the type of x, ints give f32.
Value along(const Operand& x, int axis, const Operand& mask, const std::string& what,
            const std::function<Value(Value, const Axis&)>& compute) {
  const Trace::LocationScope scope(x.loc());
  Value value = materialise(x), lanes;
  if (!value.valid()) return {};
  auto at = resolve_axis(axis, value.rank(), what, x.loc());
  if (!at) return {};
  if (mask.present()) {
    lanes = broadcast_value(as_value(mask, i1_t), value.type().shape, what, x.loc());
    if (!lanes.valid()) return {};
  }
  if (is_int(value.element())) value = cast(value, f32_t);
  const Accuracy accuracy = info(value.element()).bits < 32 ? Accuracy::kFast : Accuracy::kFull;
  return in_f32(value, [&](Value v) { return compute(v, Axis(v, *at, lanes, accuracy)); });
}

Value mean_of(const Value& v, const Axis& axis) { return axis.total(v) / axis.count(); }

// Distances from the mean; 0 in the lanes that do not count.
Value centred(const Value& v, const Axis& axis) { return axis.counted(v - axis.back(mean_of(v, axis))); }

// The sum of squared distances, less what the rounding of the mean added to it.
Value squares(const Value& distance, const Axis& axis) {
  const Value drift = sum(distance, axis.at());
  return sum(distance * distance, axis.at()) - drift * drift / axis.count();
}

// The largest element, or 0 where that is infinite: a distance from infinity would be NaN.
Value finite_max(const Value& v, const Axis& axis) {
  const Value top = reduce_max(v, axis.at());
  return where(isinf(top), 0, top);
}

}  // namespace

Value softmax(Operand x, int axis) {
  return along(x, axis, {}, "softmax", [](Value v, const Axis& a) {
    const Value e = a.exponential(v - a.back(reduce_max(v, a.at())));
    return e * a.back(1 / sum(e, a.at()));
  });
}

Value log_softmax(Operand x, int axis) {
  return along(x, axis, {}, "log_softmax", [](Value v, const Axis& a) {
    const Value distance = v - a.back(reduce_max(v, a.at()));
    return distance - a.back(log(sum(a.exponential(distance), a.at())));
  });
}

Value logsumexp(Operand x, int axis) {
  return along(x, axis, {}, "logsumexp", [](Value v, const Axis& a) {
    const Value top = finite_max(v, a);
    return top + log(sum(a.exponential(v - a.back(top)), a.at()));
  });
}

Value any(Operand x, int axis) {
  const Trace::LocationScope scope(x.loc());
  return reduce_or(cast(x, i1_t), axis);
}

Value all(Operand x, int axis) {
  const Trace::LocationScope scope(x.loc());
  return reduce_and(cast(x, i1_t), axis);
}

std::pair<Value, Value> max_with_index(Operand x, int axis) { return {reduce_max(x, axis), argmax(x, axis)}; }
std::pair<Value, Value> min_with_index(Operand x, int axis) { return {reduce_min(x, axis), argmin(x, axis)}; }

Value mean(Operand x, int axis, MaskOptions options) { return along(x, axis, options.mask, "mean", mean_of); }

Value var(Operand x, int axis, VarOptions options) {
  return along(x, axis, options.mask, "var",
               [&](Value v, const Axis& a) { return squares(centred(v, a), a) / (a.count() - options.correction); });
}

Value layer_norm(Operand x, Operand weight, Operand bias, int axis, Operand eps, MaskOptions options) {
  return along(x, axis, options.mask, "layer_norm", [&](Value v, const Axis& a) {
    const Value distance = centred(v, a);
    Value out = distance * a.back(rsqrt(squares(distance, a) / a.count() + a.spread(eps)));
    if (weight.present()) out = out * a.spread(weight);
    return bias.present() ? out + a.spread(bias) : out;
  });
}

Value rms_norm(Operand x, Operand weight, int axis, Operand eps, MaskOptions options) {
  return along(x, axis, options.mask, "rms_norm", [&](Value v, const Axis& a) {
    const Value out = v * a.back(rsqrt(a.total(v * v) / a.count() + a.spread(eps)));
    return weight.present() ? out * a.spread(weight) : out;
  });
}

}  // namespace kiln::dsl::lang
