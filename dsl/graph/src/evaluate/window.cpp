// Evaluator: windows: their sums and extremes, and what goes back through those.
#include "evaluate/combine.h"

namespace kiln::graph::evaluator {
namespace {

struct Windows {
  Extents x, out;  // shapes
  Extents size, strides, low, dilation;

  Windows(const Step& step, Extents x_shape, Extents out_shape)
      : x(std::move(x_shape)),
        out(std::move(out_shape)),
        size(ints_attr(step.attrs(), 1)),
        strides(ints_attr(step.attrs(), 2)),
        low(ints_attr(step.attrs(), 3)),
        dilation(ints_attr(step.attrs(), 5)) {}

  // function(place of the result, places of x in its window), places in row-major order.
  void for_each(FunctionRef<void(int64_t at, std::span<const size_t> places)> function) const {
    if (count_of(out) == 0) return;
    Extents index(out.size(), 0);
    std::vector<size_t> places;
    int64_t at = 0;
    do {
      places.clear();
      Extents inside(x.size(), 0);
      do {
        int64_t place = 0;
        bool outside = false;
        for (size_t axis = 0; axis < x.size(); ++axis) {
          const int64_t i = index[axis] * strides[axis] - low[axis] + inside[axis] * dilation[axis];
          outside = outside || i < 0 || i >= x[axis];
          place = place * x[axis] + i;
        }
        if (!outside) places.push_back(static_cast<size_t>(place));
      } while (next_index(inside, size));
      function(at++, std::span<const size_t>(places));
    } while (next_index(index, out));
  }
};

template <class T>
void gather(const std::vector<T>& from, std::span<const size_t> places, std::vector<T>& out) {
  out.clear();
  for (const size_t place : places) out.push_back(from[place]);
}

void run_combine(Step& step) {
  const Array& x = step.operand(0);
  const dsl::ReduceKind kind = tile_kind(enum_attr<WindowKind>(step.attrs(), 0));
  Array& out = step.make();
  with_element(x.element, [&](auto of) {
    using Lane = decltype(of);
    const auto all = numbers<Lane>(x);
    std::vector<typename Lane::Number> line;
    Windows(step, x.shape, out.shape).for_each([&](int64_t at, std::span<const size_t> places) {
      gather(all, places, line);
      store_bits<Lane>(out, at, combine_all<Lane>(x.element, kind, std::span<const typename Lane::Number>(line)));
    });
  });
}

// The place in x of the window's extreme, for each window that has one: function(at, place).
void for_extremes(const Step& step, const Extents& out_shape, bool is_min,
                  FunctionRef<void(size_t at, size_t place)> function) {
  const Array& x = step.operand(0);
  with_element(x.element, [&](auto of) {
    using Lane = decltype(of);
    const auto all = numbers<Lane>(x);
    std::vector<typename Lane::Number> line;
    Windows(step, x.shape, out_shape).for_each([&](int64_t at, std::span<const size_t> places) {
      if (places.empty()) return;
      gather(all, places, line);
      function(static_cast<size_t>(at), places[extreme_index(std::span<const typename Lane::Number>(line), is_min)]);
    });
  });
}

void run_spread(Step& step) {
  const Array &x = step.operand(0), &g = step.operand(1);
  const auto kind = enum_attr<WindowKind>(step.attrs(), 0);
  Array& out = step.make();
  with_element(g.element, [&](auto of) {
    using Lane = decltype(of);
    using T = typename Lane::Number;
    const std::vector<T> given = numbers<Lane>(g);
    std::vector<T> sums(static_cast<size_t>(out.count()));
    auto add = [&](size_t at, size_t place) {
      sums[place] = combine_two(dsl::ReduceKind::kSum, sums[place], given[at]);
    };
    if (kind == WindowKind::kSum) {
      Windows(step, x.shape, g.shape).for_each([&](int64_t at, std::span<const size_t> places) {
        for (const size_t place : places) add(static_cast<size_t>(at), place);
      });
    } else {
      for_extremes(step, g.shape, kind == WindowKind::kMin, add);
    }
    for (size_t i = 0; i < sums.size(); ++i) store_bits<Lane>(out, static_cast<int64_t>(i), Lane::encode(sums[i]));
  });
}

void run_pick(Step& step) {
  const std::vector<uint64_t> given = all_bits(step.operand(1));
  Array& out = step.make();
  std::vector<uint64_t> picked(static_cast<size_t>(out.count()));  // 0 where a window has no elements
  for_extremes(step, out.shape, enum_attr<PickKind>(step.attrs(), 0) == PickKind::kMin,
               [&](size_t at, size_t place) { picked[at] = given[place]; });
  store_all(out, picked);
}

}  // namespace

Result<void> run_window(Step& step) {
  switch (step.node.op) {
    case TensorOp::kWindow:
      run_combine(step);
      return {};
    case TensorOp::kWindowSpread:
      run_spread(step);
      return {};
    default:  // kWindowPick
      run_pick(step);
      return {};
  }
}

}  // namespace kiln::graph::evaluator
