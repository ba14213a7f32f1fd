// Boxes and selection beside loops in float64.
#include "kiln/graph/detection.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "library/numbers.h"

namespace kiln::graph::test {
namespace {

using testing::HasSubstr;

Numbers random_boxes(std::vector<int64_t> shape, uint32_t seed, double size) {
  Numbers out = random_numbers(std::move(shape), seed, 0, size);
  for (size_t i = 0; i < out.all.size(); i += 4) {
    out.all[i + 2] = out.all[i] + out.all[i + 2] / 2;
    out.all[i + 3] = out.all[i + 1] + out.all[i + 3] / 2;
  }
  return out;
}

double overlap(const double* a, const double* b) {
  const double w = std::min(a[2], b[2]) - std::max(a[0], b[0]), h = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  const double shared = std::max(w, 0.0) * std::max(h, 0.0);
  const auto area = [](const double* x) { return (x[2] - x[0]) * (x[3] - x[1]); };
  return shared / (area(a) + area(b) - shared);
}

TEST(Detection, OverlapsOfBoxes) {
  const Numbers a = random_boxes({5, 4}, 1, 10), b = random_boxes({7, 4}, 2, 10);
  const auto out = computed(
      {a, b}, [](Tensors t) { return Tensors{box_iou(t[0], t[1]), box_iou(zeros(f64, {1, 4}), zeros(f64, {1, 4}))}; });
  ASSERT_EQ(out.size(), 2u);
  Numbers expected({5, 7});
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 7; ++j) expected(i, j) = overlap(&a.all[i * 4u], &b.all[j * 4u]);
  }
  expect_numbers("iou", out[0], expected);
  EXPECT_EQ(out[1].all[0], 0);
}

std::vector<int> kept_of(const Numbers& boxes, const Numbers& scores, int image, const Numbers* classes, double most,
                         size_t limit) {
  std::vector<int> order, kept;
  for (int i = 0; i < scores.shape[1]; ++i) {
    if (scores(image, i) > -INFINITY) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](int a, int b) { return scores(image, a) > scores(image, b); });
  for (const int i : order) {
    const bool gone = std::ranges::any_of(kept, [&](int j) {
      return (!classes || (*classes)(image, i) == (*classes)(image, j)) &&
             overlap(&boxes.all[static_cast<size_t>((image * scores.shape[1] + i) * 4)],
                     &boxes.all[static_cast<size_t>((image * scores.shape[1] + j) * 4)]) > most;
    });
    if (!gone && kept.size() < limit) kept.push_back(i);
  }
  return kept;
}

TEST(Detection, NmsKeepsTheBest) {
  const Numbers boxes = random_boxes({2, 23, 4}, 3, 6), classes = random_numbers({2, 23}, 5, 0, 3, i32);
  Numbers scores = random_numbers({2, 23}, 4, 0, 1);
  scores(0, 3) = NAN;
  scores(0, 4) = -INFINITY;
  scores(1, 7) = scores(1, 2);
  for (const int64_t limit : {4, 30}) {
    const auto out = computed({boxes, scores, classes}, [&](Tensors t) {
      const KeptBoxes all = nms(t[0], t[1], limit, 0.3), by_class = nms(t[0], t[1], limit, 0.3, t[2]);
      return Tensors{all.indices, all.count, by_class.indices, by_class.count};
    });
    ASSERT_EQ(out.size(), 4u);
    for (int image = 0; image < 2; ++image) {
      for (const size_t form : {0, 2}) {
        const auto kept =
            kept_of(boxes, scores, image, form == 0 ? nullptr : &classes, 0.3, static_cast<size_t>(limit));
        EXPECT_EQ(out[form + 1](image), static_cast<double>(kept.size()));
        for (int i = 0; i < limit; ++i) {
          const bool there = static_cast<size_t>(i) < kept.size();
          EXPECT_EQ(out[form](image, i), there ? kept[static_cast<size_t>(i)] : -1) << limit << " " << form << " " << i;
        }
      }
    }
  }
}

double bilinear(const Numbers& x, int n, int c, double i, double j) {
  const auto h = static_cast<double>(x.shape[2]), w = static_cast<double>(x.shape[3]);
  if (i < -1 || j < -1 || i > h || j > w) return 0;
  i = std::clamp(i, 0.0, h - 1), j = std::clamp(j, 0.0, w - 1);
  double sum = 0;
  for (int a = 0; a < 2; ++a) {
    for (int b = 0; b < 2; ++b) {
      const double y = std::floor(i) + a, z = std::floor(j) + b;
      if (y < h && z < w) sum += (1 - std::fabs(i - y)) * (1 - std::fabs(j - z)) * x(n, c, int(y), int(z));
    }
  }
  return sum;
}

TEST(Detection, RoiAlignBothWays) {
  const Numbers x = random_numbers({2, 3, 6, 7}, 6);
  Numbers boxes = random_boxes({5, 4}, 7, 12);
  boxes(4, 0) = -9;  // partly outside
  const Numbers images = random_numbers({5}, 8, 0, 2, i32);
  for (const bool aligned : {false, true}) {
    const RoiOptions by{.height = 2, .width = 3, .scale = 0.5, .samples = 2, .aligned = aligned};
    const auto out = computed({x, boxes, images}, [&](Tensors t) { return Tensors{roi_align(t[0], t[1], t[2], by)}; });
    ASSERT_EQ(out.size(), 1u);
    Numbers expected({5, 3, 2, 3});
    for (int r = 0; r < 5; ++r) {
      double at[4];
      for (int i = 0; i < 4; ++i) at[i] = boxes(r, i) * 0.5 - (aligned ? 0.5 : 0);
      double h = at[3] - at[1], w = at[2] - at[0];
      if (!aligned) h = std::max(h, 1.0), w = std::max(w, 1.0);
      for (int c = 0; c < 3; ++c) {
        for (int i = 0; i < 4; ++i) {
          for (int j = 0; j < 6; ++j) {
            const double v = at[1] + (i / 2 + (i % 2 + 0.5) / 2) * h / 2,
                         u = at[0] + (j / 2 + (j % 2 + 0.5) / 2) * w / 3;
            expected(r, c, i / 2, j / 2) += bilinear(x, static_cast<int>(images(r)), c, v, u) / 4;
          }
        }
      }
    }
    expect_numbers(aligned ? "aligned" : "not aligned", out[0], expected);
  }
  EXPECT_THAT(refusal({input("x", f32, {1, 1, 4, 4}), input("b", f32, {2, 5}), input("i", i32, {2})},
                      [](Tensors t) { return Tensors{roi_align(t[0], t[1], t[2])}; }),
              HasSubstr("roi_align: f32[2, 5] are not boxes"));
}

TEST(Selection, Compaction) {
  Numbers x = random_numbers({3, 7}, 9);
  const Numbers mask = random_numbers({3, 7}, 10, 0, 2, i1);
  for (size_t i = 0; i < x.all.size(); i += 3) x.all[i] = 0;
  const auto out = computed({x, mask}, [](Tensors t) {
    const Selected chosen = masked_select(t[0], t[1], -9), places = nonzero(t[0]);
    const Selected none = masked_select(t[0], zeros(i1, {3, 7}), 4);
    return Tensors{chosen.values, chosen.count, places.values, places.count, none.values, none.count};
  });
  ASSERT_EQ(out.size(), 6u);
  Numbers values({21}, -9), places({21, 2}, -1);
  int chosen = 0, found = 0;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 7; ++j) {
      if (mask(i, j) != 0) values(chosen++) = x(i, j);
      if (x(i, j) == 0) continue;
      places(found, 0) = i;
      places(found++, 1) = j;
    }
  }
  expect_numbers("selected", out[0], values);
  EXPECT_EQ(out[1].all[0], chosen);
  expect_numbers("nonzero", out[2], places);
  EXPECT_EQ(out[3].all[0], found);
  expect_numbers("none", out[4], Numbers({21}, 4));
  EXPECT_EQ(out[5].all[0], 0);
}

TEST(Selection, Unique) {
  for (const ElementType type : {i32, f64}) {
    const Numbers x = random_numbers({4, 5}, 11, -3, 4, i32);
    Numbers typed = x;
    typed.type = type;
    const auto out = computed({typed}, [](Tensors t) {
      const UniqueValues y = unique(t[0]);
      return Tensors{y.values, y.inverse, y.counts, y.count};
    });
    ASSERT_EQ(out.size(), 4u);
    std::map<double, int> counts;
    for (const double each : x.all) ++counts[each];
    Numbers values({20}), inverse({4, 5}), times({20});
    int next = 0;
    for (const auto& [value, count] : counts) {
      for (size_t i = 0; i < x.all.size(); ++i) {
        if (x.all[i] == value) inverse.all[i] = next;
      }
      values(next) = value;
      times(next++) = count;
    }
    expect_numbers("values", out[0], values);
    expect_numbers("inverse", out[1], inverse);
    expect_numbers("counts", out[2], times);
    EXPECT_EQ(out[3].all[0], next);
  }
}

TEST(Selection, Bisection) {
  for (const int64_t count : {1, 2, 7, 16, 300}) {
    Numbers edges = random_numbers({count}, 12, -3, 3, i32), values = random_numbers({3, 11}, 13, -5, 5, i32);
    std::ranges::sort(edges.all);
    edges.type = values.type = f64;
    values(0, 0) = NAN;
    if (count == 16) edges(15) = NAN;
    const auto out = computed({edges, values},
                              [](Tensors t) { return Tensors{searchsorted(t[0], t[1]), bucketize(t[1], t[0], true)}; });
    ASSERT_EQ(out.size(), 2u);
    const auto below = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
    Numbers left({3, 11}), right = left;
    for (size_t i = 0; i < values.all.size(); ++i) {
      for (const double edge : edges.all) {
        left.all[i] += below(edge, values.all[i]) ? 1 : 0;
        right.all[i] += below(values.all[i], edge) ? 0 : 1;
      }
    }
    expect_numbers("left", out[0], left);
    expect_numbers("right", out[1], right);
  }
}

double combine(SegmentKind kind, double a, double b) {
  switch (kind) {
    case SegmentKind::kMin:
      return std::min(a, b);
    case SegmentKind::kMax:
      return std::max(a, b);
    case SegmentKind::kProd:
      return a * b;
    default:
      return a + b;
  }
}
constexpr SegmentKind kKinds[] = {SegmentKind::kSum, SegmentKind::kMean, SegmentKind::kMin, SegmentKind::kMax,
                                  SegmentKind::kProd};

// Rows in front of the first segment and behind the last are of none.
TEST(Selection, Segments) {
  const Numbers x = random_numbers({9, 2}, 14);
  Numbers offsets({5}, 0, i32);
  const int starts[] = {1, 3, 3, 7, 8};
  for (int i = 0; i < 5; ++i) offsets(i) = starts[i];
  for (const SegmentKind kind : kKinds) {
    const auto out = computed({x, offsets}, [&](Tensors t) { return Tensors{segment_reduce(t[0], t[1], kind)}; });
    ASSERT_EQ(out.size(), 1u);
    Numbers expected({4, 2}, kind == SegmentKind::kProd ? 1 : 0);
    for (int s = 0; s < 4; ++s) {
      for (int c = 0; c < 2; ++c) {
        for (int r = starts[s]; r < starts[s + 1]; ++r) {
          expected(s, c) = r == starts[s] ? x(r, c) : combine(kind, expected(s, c), x(r, c));
        }
        if (kind == SegmentKind::kMean) expected(s, c) /= std::max(starts[s + 1] - starts[s], 1);
      }
    }
    expect_numbers("segments", out[0], expected);
  }
  EXPECT_THAT(refusal({input("x", i32, {4}), input("o", i32, {3})},
                      [](Tensors t) { return Tensors{segment_reduce(t[0], t[1], SegmentKind::kMean)}; }),
              HasSubstr("segment_reduce: a mean of i32[4], which are no floats"));
}

TEST(Selection, ScatterReduce) {
  const Numbers x = random_numbers({4, 3}, 15), values = random_numbers({6, 3}, 16);
  const Numbers index = random_numbers({6, 3}, 17, 0, 3, i64);
  for (const SegmentKind kind : kKinds) {
    for (const bool with_self : {false, true}) {
      const auto out = computed(
          {x, index, values}, [&](Tensors t) { return Tensors{scatter_reduce(t[0], t[1], t[2], 0, kind, with_self)}; });
      ASSERT_EQ(out.size(), 1u);
      Numbers expected = x, count({4, 3}, with_self ? 1 : 0);
      for (int i = 0; i < 6; ++i) {
        for (int j = 0; j < 3; ++j) {
          const auto row = static_cast<int64_t>(index(i, j));
          expected(row, j) = count(row, j) == 0 ? values(i, j) : combine(kind, expected(row, j), values(i, j));
          count(row, j) += 1;
        }
      }
      if (kind == SegmentKind::kMean) {
        for (size_t i = 0; i < expected.all.size(); ++i) expected.all[i] /= std::max(count.all[i], 1.0);
      }
      expect_numbers("scattered", out[0], expected);
    }
  }
}

}  // namespace
}  // namespace kiln::graph::test
