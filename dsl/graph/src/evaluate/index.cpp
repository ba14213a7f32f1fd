// Evaluator: reads and writes at places that are data.
#include "evaluate/combine.h"

namespace kiln::graph::evaluator {
namespace {

// Places along an axis from ints of any type: negative ones count from the end. One outside is an error, or, where
// nobody looks for it, some place inside.
class Places {
 public:
  Places(const Step& step, const Array& index, int64_t axis, int64_t extent)
      : step_(step), index_(index), axis_(axis), extent_(extent), bits_(all_bits(index)) {}

  Result<int64_t> operator()(int64_t i) const {
    const Wide number = wide_from_bits(dsl::info(index_.element), bits_[static_cast<size_t>(i)]);
    const Wide place = number < 0 ? number + extent_ : number;
    if (place >= 0 && place < extent_) return static_cast<int64_t>(place);
    if (!step_.machine.options.check_indices && extent_ > 0) return 0;
    Extents at(index_.shape.size());
    int64_t rest = i;
    for (size_t axis = at.size(); axis-- > 0;) {
      at[axis] = rest % index_.shape[axis];
      rest /= index_.shape[axis];
    }
    const bool is_signed = dsl::info(index_.element).is_signed;
    return step_.fail(
        "index " +
        (is_signed ? std::to_string(static_cast<int64_t>(number)) : std::to_string(static_cast<uint64_t>(number))) +
        " at " + text(at) + " is outside axis " + std::to_string(axis_) + " of extent " + std::to_string(extent_));
  }

 private:
  const Step& step_;
  const Array& index_;
  int64_t axis_, extent_;
  std::vector<uint64_t> bits_;
};

// The elements that ops write to one after the other: combined in f32 where they are smaller, rounded once. What nobody
// writes to keeps its bits.
template <class Lane>
class Combined {
 public:
  Combined(const Array& x, ScatterKind kind) : kind_(kind), bits_(all_bits(x)) {
    if (kind == ScatterKind::kSet) return;
    numbers_ = numbers<Lane>(x);
    touched_.resize(numbers_.size());
  }
  void write(size_t place, uint64_t bits) {
    if (kind_ == ScatterKind::kSet) {
      bits_[place] = bits;
    } else {
      numbers_[place] = combine_two(tile_kind(kind_), numbers_[place], Lane::decode(bits));
      touched_[place] = true;
    }
  }
  const std::vector<uint64_t>& finish() {
    for (size_t i = 0; i < touched_.size(); ++i) {
      if (touched_[i]) bits_[i] = encode_combined<Lane>(tile_kind(kind_), numbers_[i]);
    }
    return bits_;
  }

 private:
  ScatterKind kind_;
  std::vector<uint64_t> bits_;
  std::vector<typename Lane::Number> numbers_;
  std::vector<bool> touched_;
};

// The first `count` places. place(i) gives a Result<int64_t>.
template <class Place>
Result<std::vector<size_t>> places_of(size_t count, const Place& place) {
  std::vector<size_t> out(count);
  for (size_t i = 0; i < count; ++i) {
    auto at = place(static_cast<int64_t>(i));
    if (!at) return at.error();
    out[i] = static_cast<size_t>(*at);
  }
  return out;
}

// x with values[i] written at places[i], both in row-major order.
void write_at(Step& step, const Array& x, std::span<const uint64_t> values, ScatterKind kind,
              std::span<const size_t> places) {
  with_element(x.element, [&](auto of) {
    Combined<decltype(of)> combined(x, kind);
    for (size_t i = 0; i < places.size(); ++i) combined.write(places[i], values[i]);
    store_all(step.make(), combined.finish());
  });
}

template <class Place>
Result<void> write_all(Step& step, const Array& x, const Array& values, ScatterKind kind, const Place& place) {
  const std::vector<uint64_t> bits = all_bits(values);
  const auto places = places_of(bits.size(), place);
  if (!places) return places.error();
  write_at(step, x, bits, kind, *places);
  return {};
}

// Row-major place in x for each place of an index whose other axes are those of x.
class AlongAxis {
 public:
  AlongAxis(const Step& step, const Array& x, const Array& index, size_t axis)
      : places_(step, index, static_cast<int64_t>(axis), x.shape[axis]),
        length_(index.shape[axis]),
        extent_(x.shape[axis]),
        inner_(count_of(std::span(x.shape).subspan(axis + 1))) {}
  Result<int64_t> operator()(int64_t i) const {
    auto place = places_(i);
    if (!place) return place;
    return i / (inner_ * length_) * inner_ * extent_ + *place * inner_ + i % inner_;
  }

 private:
  Places places_;
  int64_t length_, extent_, inner_;
};

// Row-major place in x for each point of several indices and each place of the axes that none numbers.
class AtPoints {
 public:
  AtPoints(const Step& step, const Array& x, std::span<const Array* const> indices, std::span<const int64_t> axes) {
    const std::vector<int64_t> order = moved_last(x.shape.size(), axes);
    Extents strides(x.shape.size());
    int64_t stride = 1;
    for (size_t axis = strides.size(); axis-- > 0; stride *= x.shape[axis]) strides[axis] = stride;
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<size_t>(axes[i]);
      places_.emplace_back(step, *indices[i], axes[i], x.shape[axis]);
      strides_.push_back(strides[axis]);
    }
    // Offsets of the parts, in row-major order of the other axes.
    Extents shape, rest_strides;
    for (size_t i = 0; i + axes.size() < order.size(); ++i) {
      shape.push_back(x.shape[static_cast<size_t>(order[i])]);
      rest_strides.push_back(strides[static_cast<size_t>(order[i])]);
    }
    if (count_of(shape) == 0) return;
    Extents index(shape.size(), 0);
    do {
      offsets_.push_back(std::inner_product(index.begin(), index.end(), rest_strides.begin(), int64_t{0}));
    } while (next_index(index, shape));
  }
  Result<int64_t> operator()(int64_t i) const {
    const auto parts = static_cast<int64_t>(offsets_.size());
    int64_t at = offsets_[static_cast<size_t>(i % parts)];
    for (size_t axis = 0; axis < places_.size(); ++axis) {
      auto place = places_[axis](i / parts);
      if (!place) return place;
      at += *place * strides_[axis];
    }
    return at;
  }

 private:
  std::vector<Places> places_;
  std::vector<int64_t> strides_, offsets_;
};

// out[i] = x[place(i)].
template <class Place>
Result<void> read_all(Step& step, const Array& x, const Place& place) {
  const std::vector<uint64_t> bits = all_bits(x);
  Array& out = step.make();
  const auto places = places_of(static_cast<size_t>(out.count()), place);
  if (!places) return places.error();
  std::vector<uint64_t> read;
  read.reserve(places->size());
  for (const size_t at : *places) read.push_back(bits[at]);
  store_all(out, read);
  return {};
}

}  // namespace

Result<void> run_index(Step& step) {
  const Array& x = step.operand(0);
  switch (step.node.op) {
    case TensorOp::kGather:
      return read_all(step, x, AlongAxis(step, x, step.operand(1), static_cast<size_t>(int_attr(step.attrs(), 0))));
    case TensorOp::kScatter:
      return write_all(step, x, step.operand(2), enum_attr<ScatterKind>(step.attrs(), 1),
                       AlongAxis(step, x, step.operand(1), static_cast<size_t>(int_attr(step.attrs(), 0))));
    case TensorOp::kIndex:
      return read_all(step, x, AtPoints(step, x, step.operands.subspan(1), ints_attr(step.attrs(), 0)));
    default:  // kIndexPut
      return write_all(step, x, step.operand(1), enum_attr<ScatterKind>(step.attrs(), 1),
                       AtPoints(step, x, step.operands.subspan(2), ints_attr(step.attrs(), 0)));
  }
}

}  // namespace kiln::graph::evaluator
