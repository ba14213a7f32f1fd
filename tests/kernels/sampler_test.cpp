// class_balanced_sampler against its definition in docs/use/kernels.md, with a philox of its own, and as a sampler:
// fixed shapes, members only, none twice, all equally likely.
#include <algorithm>
#include <numeric>
#include <set>

#include "check.h"

namespace kiln::test {
namespace {

// The first word of Philox4x32-10 with counter (offset, 0, 0) and key seed.
uint32_t philox_word(uint64_t seed, uint64_t offset) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), 0, 0};
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
  }
  return c[0];
}

struct Sampler {
  int64_t n, cols, k, batch, block;
  int64_t seed = 7;
};

std::vector<int32_t> labels_of(int64_t n) {
  std::vector<int32_t> out = ints(static_cast<size_t>(n), 0, 11, 5);  // ten to one
  for (int32_t& label : out) label = label == 10;
  return out;
}

enum class Form { kLoop, kLong };

template <class T, class Run>
void check_sampler(const Sampler& s, const std::vector<int32_t>& labels, Run run, Form form = Form::kLoop) {
  const auto rows = static_cast<size_t>(s.batch * 2 * s.k), width = static_cast<size_t>(s.cols);
  const auto x = normals_of<T>(static_cast<size_t>(s.n * s.cols), 1);
  const auto in = reals(x);
  std::vector<int32_t> index, counts;
  std::vector<double> gathered;
  for (int64_t sample = 0; sample < s.batch; ++sample) {
    for (int32_t which : {0, 1}) {
      std::vector<int32_t> members;
      for (int64_t i = 0; i < s.n; ++i) {
        if (labels[static_cast<size_t>(i)] == which) members.push_back(static_cast<int32_t>(i));
      }
      auto word = [&](int32_t i) {
        return philox_word(static_cast<uint64_t>(s.seed + sample), static_cast<uint64_t>(i));
      };
      std::stable_sort(members.begin(), members.end(), [&](int32_t a, int32_t b) { return word(a) > word(b); });
      counts.push_back(static_cast<int32_t>(members.size()));
      for (int64_t i = 0; i < s.k; ++i) {
        const bool there = i < static_cast<int64_t>(members.size());
        index.push_back(there ? members[static_cast<size_t>(i)] : -1);
        for (size_t c = 0; c < width; ++c) {
          gathered.push_back(there ? in[static_cast<size_t>(index.back()) * width + c] : 0);
        }
      }
    }
  }
  const auto& kernel =
      form == Form::kLoop ? kernels::class_balanced_sampler<T>().ir() : kernels::class_balanced_sampler_long<T>().ir();
  run(kernel, dsl::ConstexprValues{{"K", s.k}, {"BLOCK", s.block}, {"BC", std::max<int64_t>(s.cols, 4)}},
      Arguments{buffer(labels), buffer(x), empty<int32_t>(rows), empty<Memory<T>>(rows * width),
                empty<int32_t>(counts.size()), int_of(s.batch), int_of(s.n), int_of(s.cols), int_of(s.seed)},
      [&](const Arguments& out) {
        expect_equal(out[2], index);
        expect_close(reals<T>(out[3]), gathered, 0);
        expect_equal(out[4], counts);
      });
}

TEST(SamplerKernel, GivesTheLargestKeysOfEachClass) {
  for_floats([]<class T>() {
    check_sampler<T>({200, 3, 5, 3, 64}, labels_of(200), check_both);
    check_sampler<T>({64, 1, 4, 2, 64}, labels_of(64), check_both);
  });
}

// As one tile; the last of these lengths is a plan on a GPU.
TEST(SamplerKernel, GivesTheSameOfALongSet) {
  for_floats([]<class T>() {
    check_sampler<T>({200, 3, 5, 3, 256}, labels_of(200), check_both, Form::kLong);
    check_sampler<T>({64, 1, 4, 2, 64}, labels_of(64), check_both, Form::kLong);
  });
  check_sampler<lang::f32>({30, 2, 8, 2, 32}, std::vector<int32_t>(30, 0), check_both, Form::kLong);
  check_sampler<lang::f32>({70'000, 16, 64, 2, 71'680}, labels_of(70'000), check_compiled, Form::kLong);
  if (!full()) return;
  check_sampler<lang::f32>({1'000'000, 64, 64, 1, 1'048'576}, labels_of(1'000'000), check_compiled, Form::kLong);
}

TEST(SamplerKernel, AClassThatIsTooSmallIsFilledUp) {
  check_sampler<lang::f32>({30, 2, 8, 2, 16}, std::vector<int32_t>(30, 0), check_both);
  std::vector<int32_t> labels(30, 7);  // in no class
  labels[3] = labels[29] = 1;
  check_sampler<lang::f32>({30, 2, 8, 2, 16}, labels, check_both);
}

TEST(SamplerKernel, RealShapes) {
  check_sampler<lang::f32>({10'000, 16, 64, 32, 4096}, labels_of(10'000), check_compiled);
  if (!full()) return;
  check_sampler<lang::f32>({100'000, 64, 64, 32, 4096}, labels_of(100'000), check_compiled);
  check_sampler<lang::f32>({1'000'000, 16, 256, 32, 4096}, labels_of(1'000'000), check_compiled);
}

// Of each class as many as the smaller one has.
template <class T, class Run>
void check_dynamic(const Sampler& s, const std::vector<int32_t>& labels, Run run) {
  const auto width = static_cast<size_t>(s.cols), room = static_cast<size_t>(s.n / 2);
  const auto x = normals_of<T>(static_cast<size_t>(s.n * s.cols), 1);
  const auto taken = static_cast<size_t>(std::min(std::ranges::count(labels, 0), std::ranges::count(labels, 1)));
  const TestArgument untouched = empty<Memory<T>>(static_cast<size_t>(s.batch) * 2 * room * width);
  std::vector<int32_t> index;
  const auto in = reals(x);
  std::vector<double> gathered = reals<T>(untouched);
  for (int64_t list = 0; list < s.batch * 2; ++list) {
    std::vector<int32_t> members(labels.size());
    std::iota(members.begin(), members.end(), 0);
    std::erase_if(members, [&](int32_t i) { return labels[static_cast<size_t>(i)] != list % 2; });
    std::ranges::stable_sort(members, std::greater(), [&](int32_t i) {
      return philox_word(static_cast<uint64_t>(s.seed + list / 2), static_cast<uint64_t>(i));
    });
    members.resize(taken);
    for (size_t i = 0; i < taken * width; ++i) {
      gathered[static_cast<size_t>(list) * room * width + i] =
          in[static_cast<size_t>(members[i / width]) * width + i % width];
    }
    members.resize(room, -1);
    index.insert(index.end(), members.begin(), members.end());
  }
  run(kernels::class_balanced_sampler_dynamic<T>().ir(),
      dsl::ConstexprValues{{"BLOCK", s.block}, {"BC", std::max<int64_t>(s.cols, 4)}},
      Arguments{buffer(labels), buffer(x), empty<int32_t>(index.size()), untouched,
                empty<int32_t>(static_cast<size_t>(s.batch)), int_of(s.batch), int_of(s.n), int_of(s.cols),
                int_of(s.seed)},
      [&](const Arguments& out) {
        expect_equal(out[2], index);
        expect_close(reals<T>(out[3]), gathered, 0);
        expect_equal(out[4], std::vector<int32_t>(static_cast<size_t>(s.batch), static_cast<int32_t>(taken)));
      });
}

TEST(SamplerKernel, TakesAsManyAsTheSmallerClassHas) {
  for_floats([]<class T>() { check_dynamic<T>({201, 3, 0, 3, 256}, labels_of(201), check_both); });
  check_dynamic<lang::f32>({30, 2, 0, 2, 32}, std::vector<int32_t>(30, 0), check_both);  // none
  std::vector<int32_t> halves(40, 1);
  std::fill_n(halves.begin() + 7, 20, 0);
  check_dynamic<lang::f32>({40, 5, 0, 2, 64}, halves, check_both);  // all
  halves[0] = halves[39] = 7;                                       // in no class
  check_dynamic<lang::f32>({40, 5, 0, 2, 64}, halves, check_both);
  check_dynamic<lang::f32>({1000, 16, 0, 2, 1024}, labels_of(1000), check_compiled);
  // More than a block of a GPU holds.
  if (wants_targets("cpu")) check_dynamic<lang::f32>({10'000, 16, 0, 8, 16'384}, labels_of(10'000), check_compiled);
}

// Over many seeds each member is drawn about as often as the next; χ² with 39 degrees of freedom is below 80 but once
// in ten thousand times, and seeds are fixed.
TEST(SamplerKernel, IsUniform) {
  const Sampler s{44, 1, 4, 400, 64};
  std::vector<int32_t> labels(44, 0);
  for (size_t i : {3, 10, 20, 40}) labels[i] = 1;
  const std::vector<float> x(44, 1);
  check_both(kernels::class_balanced_sampler().ir(), {{"K", s.k}, {"BLOCK", s.block}, {"BC", 1}},
             {buffer(labels), buffer(x), empty<int32_t>(3200), empty<float>(3200), empty<int32_t>(800), int_of(s.batch),
              int_of(s.n), int_of(1), int_of(99)},
             [&](const Arguments& out) {
               const auto index = values_of<int32_t>(out[2]);
               std::vector<double> hits(44);
               for (size_t i = 0; i < index.size(); i += 4) {
                 const std::set<int32_t> drawn(index.begin() + static_cast<long>(i),
                                               index.begin() + static_cast<long>(i) + 4);
                 EXPECT_EQ(drawn.size(), 4u);
                 for (int32_t at : drawn) {
                   EXPECT_EQ(labels[static_cast<size_t>(at)], static_cast<int32_t>(i / 4 % 2));
                   hits[static_cast<size_t>(at)] += 1;
                 }
               }
               double spread = 0;
               for (size_t i = 0; i < hits.size(); ++i) {
                 if (labels[i] == 0) spread += (hits[i] - 40) * (hits[i] - 40) / 40;
               }
               EXPECT_LT(spread, 80);
             });
}

}  // namespace
}  // namespace kiln::test
