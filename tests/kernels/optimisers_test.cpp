// Kernels of kernels/many.h, optimisers.h and optimisers_adam.h: one step over tensors of mixed sizes against float64,
// and weights in two halves against those of f32, bit by bit.
#include <bit>
#include <cstring>
#include <numeric>

#include "check.h"
#include "compile_once.h"
#include "kiln/client/artifact.h"
#include "kiln/dsl/tensor_table.h"

namespace kiln::test {
namespace {

constexpr int32_t kChunk = 24;
constexpr double kRate = 0.02, kBeta1 = 0.9, kBeta2 = 0.99, kEps = 1e-6, kDecay = 0.1, kFactor = 0.5;
constexpr int kStep = 3;

const std::vector<int64_t>& lengths() {
  static const std::vector<int64_t> values = {1, 70, 0, 24, 25, 3};
  return values;
}

// Where tensors begin in an array: the first in front, the others from last to first, with `gap` elements between them.
std::vector<int64_t> places(int64_t gap) {
  std::vector<int64_t> out(lengths().size());
  int64_t at = lengths()[0] + gap;
  for (size_t t = out.size(); t-- > 1;) {
    out[t] = at;
    at += lengths()[t] + gap;
  }
  return out;
}

// The array of so many elements that holds all tensors, by the elements of the tensors one after another.
size_t extent_of(int64_t gap) {
  const size_t all = static_cast<size_t>(std::accumulate(lengths().begin(), lengths().end(), int64_t{0}));
  return all + static_cast<size_t>(gap) * (lengths().size() - 1);
}
template <class V>
std::vector<V> taken(const std::vector<V>& array, int64_t gap) {
  std::vector<V> out;
  const auto at = places(gap);
  for (size_t t = 0; t < at.size(); ++t) out.insert(out.end(), &array[at[t]], &array[at[t]] + lengths()[t]);
  return out;
}

// The table of arrays, of which `bytes` and `gaps` say the size of elements and what lies between tensors.
TensorTable table_of(const std::vector<int64_t>& bytes, const std::vector<int64_t>& gaps) {
  std::vector<std::vector<const void*>> addresses(bytes.size());
  std::vector<TensorArray> arrays;
  for (size_t a = 0; a < bytes.size(); ++a) {
    for (int64_t place : places(gaps[a])) {
      addresses[a].push_back(reinterpret_cast<const void*>(uintptr_t{4096} + static_cast<uintptr_t>(place * bytes[a])));
    }
    arrays.push_back({bytes[a], addresses[a]});
  }
  auto table = tensor_table(lengths(), arrays, kChunk);
  EXPECT_TRUE(table.ok()) << table.error().message;
  return *table;
}

// Weights and states before and after a step, in float64, elements of all tensors one after another.
struct State {
  double p, g, m, v;
};
using Step = std::function<void(State&)>;

struct Sums {
  double weights = 0, moves = 0;
};

struct Optimiser {
  const Result<dsl::Kernel>* ir;
  std::vector<TestArgument> scalars;
  Step step;
  bool has_v = false;
  dsl::ConstexprValues config = {};
};

template <class T>
std::vector<Optimiser> optimisers() {
  const auto d = [](double x) { return double_of(x); };
  const auto sgd = [](bool momentum, bool nesterov) {
    return [=](State& s) {
      const double slope = s.g + kDecay * s.p;
      if (momentum) s.m = kBeta1 * s.m + 0.75 * slope;
      s.p -= kRate * (nesterov ? slope + kBeta1 * s.m : momentum ? s.m : slope);
    };
  };
  const auto adam = [](bool decoupled) {
    return [=](State& s) {
      const double slope = decoupled ? s.g : s.g + kDecay * s.p;
      s.m = kBeta1 * s.m + (1 - kBeta1) * slope;
      s.v = kBeta2 * s.v + (1 - kBeta2) * slope * slope;
      if (decoupled) s.p *= 1 - kRate * kDecay;
      const double start = 1 - std::pow(kBeta1, kStep), root = 1 - std::pow(kBeta2, kStep);
      s.p -= kRate * s.m / start / (std::sqrt(s.v / root) + kEps);
    };
  };
  const std::vector<TestArgument> of_sgd = {d(kRate), d(kBeta1), d(0.25), d(kDecay)};
  const std::vector<TestArgument> of_adam = {d(kRate), d(kBeta1), d(kBeta2), d(kEps), d(kDecay), int_of(kStep)};
  return {
      {&kernels::sgd_many<T>().ir(), of_sgd, sgd(true, false)},
      {&kernels::sgd_many<T>().ir(), of_sgd, sgd(true, true), false, {{"NESTEROV", 1}, {"ALIGN", 1}}},
      {&kernels::sgd_many<T>().ir(), of_sgd, sgd(false, false), false, {{"MOMENTUM", 0}}},
      {&kernels::adagrad_many<T>().ir(),
       {d(kRate), d(kEps), d(kDecay)},
       [](State& s) {
         const double slope = s.g + kDecay * s.p;
         s.m += slope * slope;
         s.p -= kRate * slope / (std::sqrt(s.m) + kEps);
       }},
      {&kernels::lion_many<T>().ir(),
       {d(kRate), d(kBeta1), d(kBeta2), d(kDecay)},
       [](State& s) {
         const double towards = kBeta1 * s.m + (1 - kBeta1) * s.g;
         s.p = s.p * (1 - kRate * kDecay) - kRate * (towards > 0 ? 1 : towards < 0 ? -1 : 0);
         s.m = kBeta2 * s.m + (1 - kBeta2) * s.g;
       }},
      {&kernels::adam_many<T>().ir(), of_adam, adam(false), true},
      {&kernels::adamw_many<T>().ir(), of_adam, adam(true), true},
  };
}

// Arrays of p, g, m and v, each with other gaps. States are magnitudes, as sums of squares are.
template <class T>
struct Arrays {
  static constexpr int64_t kGaps[] = {3, 0, 5, 1};
  std::vector<Memory<T>> p = normals_of<T>(extent_of(3), 1), g = normals_of<T>(extent_of(0), 2);
  std::vector<float> m = magnitudes(extent_of(5), 3), v = magnitudes(extent_of(1), 4);

  static std::vector<float> magnitudes(size_t count, uint32_t seed) {
    auto out = normals(count, seed);
    for (float& x : out) x = std::fabs(x);
    return out;
  }
  std::vector<State> states() const {
    const auto ps = taken(reals(p), 3), gs = taken(reals(g), 0), ms = taken(reals(m), 5), vs = taken(reals(v), 1);
    std::vector<State> out;
    for (size_t i = 0; i < ps.size(); ++i) out.push_back({ps[i], gs[i] * kFactor, ms[i], vs[i]});
    return out;
  }
};

template <double State::* kField>
std::vector<double> all(const std::vector<State>& states) {
  std::vector<double> out;
  for (const State& s : states) out.push_back(s.*kField);
  return out;
}

// What lies between tensors is as before.
template <class M>
void expect_gaps(const TestArgument& out, const std::vector<M>& before, int64_t gap) {
  auto after = values_of<M>(out);
  const auto at = places(gap);
  for (size_t t = 0; t < at.size(); ++t) std::copy_n(&before[at[t]], lengths()[t], &after[at[t]]);
  EXPECT_EQ(std::memcmp(after.data(), before.data(), before.size() * sizeof(M)), 0);
}

template <class T>
void check_step(const Optimiser& optimiser, float go) {
  SCOPED_TRACE(optimiser.ir->value().name);
  const Arrays<T> arrays;
  std::vector<int64_t> bytes = {sizeof(Memory<T>), sizeof(Memory<T>), 4}, gaps = {3, 0, 5};
  Arguments arguments = {buffer(arrays.p), buffer(arrays.g), buffer(arrays.m)};
  if (optimiser.has_v) {
    bytes.push_back(4);
    gaps.push_back(1);
    arguments.push_back(buffer(arrays.v));
  }
  const TensorTable table = table_of(bytes, gaps);
  for (const TestArgument& more :
       {buffer(table.tensors), buffer(table.chunks), buffer(std::vector<float>{static_cast<float>(kFactor), go}),
        int_of(table.programs), int_of(kChunk)}) {
    arguments.push_back(more);
  }
  arguments.insert(arguments.end(), optimiser.scalars.begin(), optimiser.scalars.end());
  auto states = arrays.states();
  for (State& state : states) {
    if (go != 0) optimiser.step(state);
  }
  dsl::ConstexprValues config = optimiser.config;
  config["BLOCK"] = 16;
  check_both(*optimiser.ir, config, arguments, [&](const Arguments& out) {
    expect_close(taken(reals<T>(out[0]), 3), all<&State::p>(states), std::max(rtol_v<T>, 4e-6));
    expect_close(taken(reals<lang::f32>(out[2]), 5), all<&State::m>(states), 4e-6);
    expect_gaps(out[0], arrays.p, 3);
    expect_gaps(out[2], arrays.m, 5);
    if (optimiser.has_v) expect_close(taken(reals<lang::f32>(out[3]), 1), all<&State::v>(states), 4e-6);
  });
}

TEST(Optimisers, StepAllTensors) {
  for (const Optimiser& optimiser : optimisers<lang::f32>()) check_step<lang::f32>(optimiser, 1);
  for (const Optimiser& optimiser : optimisers<lang::bf16>()) check_step<lang::bf16>(optimiser, 1);
}

TEST(Optimisers, DoNothingWhereTheFactorSaysSo) {
  const auto all = optimisers<lang::f32>();
  check_step<lang::f32>(all.front(), 0);
  check_step<lang::f32>(all.back(), 0);
}

// Lamb's three launches, each checked on what float64 says of the one before.
template <class T>
void check_lamb() {
  const Arrays<T> arrays;
  const TensorTable table = table_of({sizeof(Memory<T>), sizeof(Memory<T>), 4, 4}, {3, 0, 5, 1});
  const auto factor = buffer(std::vector<float>{static_cast<float>(kFactor), 1});
  const auto before = arrays.states();
  auto states = before;
  const double start = 1 - std::pow(kBeta1, kStep), root = 1 - std::pow(kBeta2, kStep);
  const auto move = [&](const State& s) { return s.m / start / (std::sqrt(s.v / root) + kEps) + kDecay * s.p; };
  std::vector<double> sums(2 * static_cast<size_t>(table.programs)), trust;
  size_t first = 0, chunk = 0;
  for (int64_t length : lengths()) {
    double of_weights = 0, of_moves = 0;
    for (int64_t i = 0; i < length; ++i) {
      State& s = states[first + static_cast<size_t>(i)];
      s.m = kBeta1 * s.m + (1 - kBeta1) * s.g;
      s.v = kBeta2 * s.v + (1 - kBeta2) * s.g * s.g;
      const size_t place = chunk + static_cast<size_t>(i / kChunk);
      sums[place] += s.p * s.p;
      sums[static_cast<size_t>(table.programs) + place] += move(s) * move(s);
      of_weights += s.p * s.p;
      of_moves += move(s) * move(s);
    }
    trust.push_back(length == 0 ? 1 : std::sqrt(of_weights / of_moves));
    first += static_cast<size_t>(length);
    chunk += static_cast<size_t>((length + kChunk - 1) / kChunk);
  }
  const TestArgument count = int_of(table.programs), size = int_of(kChunk);
  const auto b1 = double_of(kBeta1), b2 = double_of(kBeta2), eps = double_of(kEps), decay = double_of(kDecay);
  check_both(kernels::lamb_moments<T>().ir(), {{"BLOCK", 16}},
             {buffer(arrays.p), buffer(arrays.g), buffer(arrays.m), buffer(arrays.v), buffer(table.tensors),
              buffer(table.chunks), factor, empty<float>(sums.size()), count, size, b1, b2, eps, decay, int_of(kStep)},
             [&](const Arguments& out) {
               expect_close(taken(reals<lang::f32>(out[2]), 5), all<&State::m>(states), 4e-6);
               expect_close(taken(reals<lang::f32>(out[3]), 1), all<&State::v>(states), 4e-6);
               expect_close(reals<lang::f32>(out[7]), sums, 1e-5);
             });
  const std::vector<float> rounded(sums.begin(), sums.end());
  check_both(kernels::lamb_trust().ir(), {{"BLOCK", 2}},
             {buffer(rounded), buffer(table.firsts), empty<float>(trust.size()),
              int_of(static_cast<int64_t>(trust.size())), count},
             [&](const Arguments& out) { expect_close(reals<lang::f32>(out[2]), trust, 1e-5); });

  std::vector<float> m(arrays.m.size()), v(arrays.v.size()), ratio(trust.begin(), trust.end());
  std::vector<double> next;
  first = 0;
  for (size_t t = 0; t < lengths().size(); ++t) {
    for (int64_t i = 0; i < lengths()[t]; ++i) {
      const State& s = states[first++];
      m[static_cast<size_t>(places(5)[t] + i)] = static_cast<float>(s.m);
      v[static_cast<size_t>(places(1)[t] + i)] = static_cast<float>(s.v);
      next.push_back(s.p - kRate * trust[t] * move(s));
    }
  }
  const TensorTable last = table_of({sizeof(Memory<T>), 4, 4}, {3, 5, 1});
  check_both(kernels::lamb_many<T>().ir(), {{"BLOCK", 16}},
             {buffer(arrays.p), buffer(m), buffer(v), buffer(last.tensors), buffer(last.chunks), factor, buffer(ratio),
              count, size, double_of(kRate), b1, b2, eps, decay, int_of(kStep)},
             [&](const Arguments& out) {
               expect_close(taken(reals<T>(out[0]), 3), next, std::max(rtol_v<T>, 1e-5));
               expect_gaps(out[0], arrays.p, 3);
             });
}

TEST(Optimisers, LambTrustsEachTensor) {
  check_lamb<lang::f32>();
  check_lamb<lang::bf16>();
}

TEST(Gradients, NormFactorAndScale) {
  for (const float bad : {0.0F, INFINITY, std::nanf("")}) {
    auto g = normals(extent_of(2), 1);
    const auto at = static_cast<size_t>(places(2)[1] + 69);
    if (bad != 0) g[at] = bad;
    const auto mine = taken(reals(g), 2);
    const TensorTable table = table_of({4}, {2});
    const TestArgument count = int_of(table.programs), size = int_of(kChunk);
    double square = 0;
    for (double x : mine) square += x * x;
    std::vector<float> sums, wrong;
    check_both(
        kernels::gradient_sums().ir(), {{"BLOCK", 16}},
        {buffer(g), buffer(table.tensors), buffer(table.chunks), empty<float>(static_cast<size_t>(table.programs)),
         empty<int32_t>(static_cast<size_t>(table.programs)), count, size},
        [&](const Arguments& out) {
          sums = values_of<float>(out[3]);
          const auto bads = values_of<int32_t>(out[4]);
          wrong.assign(bads.begin(), bads.end());
          EXPECT_EQ(std::accumulate(wrong.begin(), wrong.end(), 0.0F), bad == 0 ? 0 : 1);
          if (bad != 0) return;
          EXPECT_NEAR(std::accumulate(sums.begin(), sums.end(), 0.0), square, 1e-5 * square);
        });
    const std::vector<int32_t> bads(wrong.begin(), wrong.end());
    for (const float most : {0.0F, 0.5F, 1e6F}) {
      const double norm = std::sqrt(square) / 8;
      const double clip = most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1;
      check_both(kernels::gradient_factor().ir(), {{"BLOCK", 4}},
                 {buffer(sums), buffer(bads), empty<float>(2), empty<float>(1), count, float_of(most), float_of(8)},
                 [&](const Arguments& out) {
                   const auto factor = reals<lang::f32>(out[2]);
                   expect_close(factor, bad == 0 ? std::vector<double>{clip / 8, 1} : std::vector<double>{0, 0}, 1e-5);
                   if (bad == 0) expect_close(reals<lang::f32>(out[3]), {norm}, 1e-5);
                 });
    }
    if (bad != 0) continue;
    std::vector<double> scaled;
    for (double x : mine) scaled.push_back(x * 0.25);
    check_both(
        kernels::scale_many().ir(), {{"BLOCK", 16}},
        {buffer(g), buffer(table.tensors), buffer(table.chunks), buffer(std::vector<float>{0.25F, 1}), count, size},
        [&](const Arguments& out) {
          expect_close(taken(reals<lang::f32>(out[0]), 2), scaled, 0);
          expect_gaps(out[0], g, 2);
        });
  }
}

// ---- weights in two halves ----

using Launches = std::function<Result<void>(Arguments&)>;

// What launches the kernel many times. Code for CPUs is loaded once.
Launches launches_of(const dsl::Kernel& kernel, const Artifact& artifact) {
  if (artifact.metadata.device) return [&](Arguments& arguments) { return run_compiled(kernel, artifact, arguments); };
  const auto loaded = client::load_artifact(kernel, artifact);
  if (!loaded) return [error = loaded.error()](Arguments&) -> Result<void> { return error; };
  return [handle = *loaded](Arguments& arguments) {
    std::vector<client::Argument> raw;
    for (TestArgument& argument : arguments) {
      raw.push_back({argument.is_buffer ? argument.buffer.data() : nullptr, -1, argument.bits});
    }
    return handle.launch(raw, {.threads = 1});
  };
}

struct Trained {
  std::vector<uint32_t> weights;
  std::vector<std::byte> states;
};

// Runs steps with other gradients each; `split` says whether p is followed by its lower halves.
Trained train(const Result<dsl::Kernel>& ir, bool split, int states, const std::vector<TestArgument>& scalars,
              bool has_step) {
  const auto weights = normals(97, 1);
  std::vector<uint16_t> high, low;
  for (float w : weights) {
    high.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(w) >> 16));
    low.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(w)));
  }
  Arguments arguments = split ? Arguments{buffer(high), buffer(low)} : Arguments{buffer(weights)};
  const size_t gradients = arguments.size();
  arguments.push_back({});
  for (int i = 0; i < states; ++i) arguments.push_back(buffer(std::vector<float>(97)));
  const std::vector<int64_t> size = {97};
  const void* const base = nullptr;
  const TensorArray array = {2, {&base, 1}};
  const auto table = tensor_table(size, std::vector<TensorArray>(arguments.size(), array), 50);
  for (const TestArgument& more :
       {buffer(table->tensors), buffer(table->chunks), buffer(std::vector<float>{0.5F, 1}), int_of(2), int_of(50)}) {
    arguments.push_back(more);
  }
  arguments.insert(arguments.end(), scalars.begin(), scalars.end());
  const auto artifact = compile_once(*ir, {{"BLOCK", 32}});
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  if (!artifact.ok()) return {};
  const Launches launch = launches_of(*ir, *artifact);
  // On an emulated device a launch takes milliseconds.
  const int steps = artifact->metadata.device && !full() ? 20 : 1000;
  for (int step = 1; step <= steps; ++step) {
    arguments[gradients] = buffer(normals_of<lang::bf16>(97, static_cast<uint32_t>(step)));
    if (has_step) arguments.back() = int_of(step);
    if (const auto ran = launch(arguments); !ran.ok()) ADD_FAILURE() << ran.error().message;
  }
  Trained out;
  for (size_t i = 0; i < weights.size(); ++i) {
    out.weights.push_back(split ? uint32_t{values_of<uint16_t>(arguments[0])[i]} << 16 |
                                      values_of<uint16_t>(arguments[1])[i]
                                : values_of<uint32_t>(arguments[0])[i]);
    EXPECT_NE(out.weights[i], std::bit_cast<uint32_t>(weights[i]));
  }
  out.states = arguments[gradients + 1].buffer;
  return out;
}

void expect_same_training(const Result<dsl::Kernel>& whole, const Result<dsl::Kernel>& split, int states,
                          const std::vector<TestArgument>& scalars, bool has_step = false) {
  SCOPED_TRACE(split->name);
  const Trained expected = train(whole, false, states, scalars, has_step);
  const Trained actual = train(split, true, states, scalars, has_step);
  EXPECT_EQ(actual.weights, expected.weights);
  EXPECT_EQ(actual.states, expected.states);
}

TEST(SplitWeights, AreThoseOfF32AfterAThousandSteps) {
  using lang::bf16, lang::f32;
  const auto d = [](double x) { return double_of(x); };
  const std::vector<TestArgument> adam = {d(kRate), d(kBeta1), d(kBeta2), d(kEps), d(kDecay), int_of(1)};
  expect_same_training(kernels::sgd_many<f32, bf16>().ir(), kernels::sgd_split_many().ir(), 1,
                       {d(kRate), d(kBeta1), d(0), d(1e-3)});
  expect_same_training(kernels::adamw_many<f32, bf16>().ir(), kernels::adamw_split_many().ir(), 2, adam, true);
  expect_same_training(kernels::adam_many<f32, bf16>().ir(), kernels::adam_split_many().ir(), 2, adam, true);
  expect_same_training(kernels::adagrad_many<f32, bf16>().ir(), kernels::adagrad_split_many().ir(), 1,
                       {d(kRate), d(kEps), d(kDecay)});
  expect_same_training(kernels::lion_many<f32, bf16>().ir(), kernels::lion_split_many().ir(), 1,
                       {d(kRate), d(kBeta1), d(kBeta2), d(kDecay)});
}

// ---- tensors that lie anywhere ----

TEST(Optimisers, TakeTensorsThatAreAllocatedSeparately) {
  const dsl::Kernel& kernel = kernels::sgd_many().ir().value();
  const auto artifact = compile_once(kernel, {{"BLOCK", 16}});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  if (artifact->metadata.device) GTEST_SKIP() << "an emulated device knows the buffers of a launch alone";
  const auto handle = client::load_artifact(kernel, *artifact);
  ASSERT_TRUE(handle.ok()) << handle.error().message;
  std::array<std::vector<std::vector<float>>, 3> owned;  // p, g and m by tensor
  std::vector<std::vector<const void*>> addresses(3);
  std::vector<int64_t> sizes;
  for (uint32_t t = 0; t < 200; ++t) sizes.push_back(1 + t * t % 97);
  for (size_t a : {0, 1, 2}) {
    for (uint32_t t = 0; t < sizes.size(); ++t) {
      owned[a].push_back(normals(static_cast<size_t>(sizes[t]), 300 * static_cast<uint32_t>(a) + t));
      addresses[a].push_back(owned[a].back().data());
    }
  }
  const auto before = owned;
  const std::vector<TensorArray> arrays = {{4, addresses[0]}, {4, addresses[1]}, {4, addresses[2]}};
  const auto table = tensor_table(sizes, arrays, kChunk);
  ASSERT_TRUE(table.ok()) << table.error().message;
  std::vector<float> factor = {1, 1};
  const auto bits = [](double x) { return std::bit_cast<uint64_t>(x); };
  const auto memory = [](const void* at) { return client::Argument{const_cast<void*>(at), -1, 0}; };
  const auto ran = handle->launch(std::vector<client::Argument>{memory(addresses[0][0]),
                                                                memory(addresses[1][0]),
                                                                memory(addresses[2][0]),
                                                                memory(table->tensors.data()),
                                                                memory(table->chunks.data()),
                                                                memory(factor.data()),
                                                                {nullptr, -1, static_cast<uint64_t>(table->programs)},
                                                                {nullptr, -1, kChunk},
                                                                {nullptr, -1, bits(0.5)},
                                                                {nullptr, -1, bits(0.25)},
                                                                {nullptr, -1, 0},
                                                                {nullptr, -1, 0}});
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  for (size_t t = 0; t < sizes.size(); ++t) {
    for (size_t i = 0; i < owned[0][t].size(); ++i) {
      const float moved = before[2][t][i] * 0.25F + before[1][t][i];
      EXPECT_NEAR(owned[2][t][i], moved, 1e-6);
      EXPECT_NEAR(owned[0][t][i], before[0][t][i] - 0.5F * moved, 1e-6);
      EXPECT_EQ(owned[1][t][i], before[1][t][i]);
    }
  }
}

// ---- tables ----

TEST(TensorTables, NameWhatIsWrong) {
  const std::vector<int64_t> two = {5, 3};
  const auto at = [](uintptr_t a) { return reinterpret_cast<const void*>(a); };
  const std::vector<const void*> even = {at(1024), at(960)}, odd = {at(1024), at(1027)};
  const auto message = [](const Result<TensorTable>& table) { return table.ok() ? "" : table.error().message; };
  const std::vector<TensorArray> good = {{4, even}}, shifted = {{4, even}, {2, odd}}, empty = {{0, even}};
  const std::vector<TensorArray> few = {{4, {even.data(), 1}}};
  const auto table = tensor_table(two, good, 4);
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table->tensors, (std::vector<int64_t>{5, 0, 3, -16}));
  EXPECT_EQ(table->chunks, (std::vector<int32_t>{0, 0, 0, 1, 1, 0}));
  EXPECT_EQ(table->firsts, (std::vector<int32_t>{0, 2, 3}));
  EXPECT_EQ(table->align, 16);
  EXPECT_EQ(message(tensor_table(two, shifted, 4)),
            "tensor 1 of array 1 lies 3 bytes behind the first one, no multiple of the 2 of an element");
  EXPECT_EQ(message(tensor_table(two, empty, 4)), "array 0 has elements of no bytes");
  EXPECT_EQ(message(tensor_table(two, few, 4)), "array 0 has 1 tensors instead of 2");
  EXPECT_EQ(message(tensor_table(two, good, 0)), "chunks of 0 elements");
  EXPECT_EQ(message(tensor_table(std::vector<int64_t>{5, -3}, good, 4)), "tensor 1 has -3 elements");
  EXPECT_EQ(message(tensor_table(std::vector<int64_t>{5, int64_t{1} << 40}, good, 4)),
            "more than 2^31 - 1 chunks of 4 elements");
}

}  // namespace
}  // namespace kiln::test
