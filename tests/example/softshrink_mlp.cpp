// An MLP with an activation of one's own, first by a loop of the host, then by code that is launched between its
// layers:
//
//   softshrink-mlp [cpu|cuda]
//
// A profile shows the loop as a fallback, with the bytes that it copies; docs/use/custom-kernels.md has the output.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kiln/client/graph.h"
#include "kiln/client/profile.h"
#include "kiln/dsl/kernel.h"
#include "kiln/graph/functions.h"
#include "softshrink_code.h"

namespace {

constexpr int kRows = 256, kInputs = 784, kHidden = 2048, kOutputs = 256;
constexpr float kLambda = 0.5f;

template <class T>
T must(kiln::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

using Buffer = kiln::DeviceBuffer<float>;

// Where the model lies: weights, inputs and results of the layers.
struct Model {
  kiln::Device device;
  kiln::Stream stream;
  kiln::CompiledGraph first, second;
  Buffer x, w1, b1, hidden, shrunk, w2, b2, y;

  void layer(const kiln::CompiledGraph& graph, const Buffer& in, int inputs, const Buffer& w, const Buffer& b,
             int outputs, const Buffer& out) const {
    using kiln::client::array, kiln::client::donated;
    const kiln::client::ArrayView given[] = {array(in, {kRows, inputs}), array(w, {outputs, inputs}),
                                             array(b, {outputs})};
    const kiln::client::ArrayView result[] = {donated(out, {kRows, outputs})};
    must(graph.run_into(given, result, {.stream = &stream}));
  }
  template <class Activation>
  std::vector<float> step(const Activation& activation) const {
    std::vector<float> out(size_t{kRows} * kOutputs);
    layer(first, x, kInputs, w1, b1, kHidden, hidden);
    activation(*this);
    layer(second, shrunk, kHidden, w2, b2, kOutputs, y);
    must(y.copy_to(out, stream));
    must(stream.synchronise());
    return out;
  }
};

Buffer on_device(const kiln::Device& device, size_t size, float scale) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = scale * std::sin(static_cast<float>(i));
  Buffer out = must(Buffer::allocate(device, size));
  must(out.copy_from(values));
  return out;
}

Model make_model(kiln::Client& client, const std::string& target) {
  using namespace kiln::graph;
  const auto layer = [&](const char* name, int inputs, int outputs) {
    auto linear_layer =
        graph(name, {input("x", f32, {kRows, inputs}), input("w", f32, {outputs, inputs}), input("b", f32, {outputs})},
              [](Tensor x, Tensor w, Tensor b) { return linear(x, w, b); });
    return must(client.compile(linear_layer, {.target = target}));
  };
  kiln::Device device = must(kiln::Device::open(target));
  const auto buffer = [&](size_t size, float scale = 0) { return on_device(device, size, scale); };
  return {device,
          must(kiln::Stream::create(device)),
          layer("first", kInputs, kHidden),
          layer("second", kHidden, kOutputs),
          buffer(size_t{kRows} * kInputs, 1),
          buffer(size_t{kHidden} * kInputs, 0.1f),
          buffer(kHidden, 1),
          buffer(size_t{kRows} * kHidden),
          buffer(size_t{kRows} * kHidden),
          buffer(size_t{kOutputs} * kHidden, 0.1f),
          buffer(kOutputs, 1),
          buffer(size_t{kRows} * kOutputs)};
}

void shrink_on_host(const Model& model) {
  std::vector<float> values(size_t{kRows} * kHidden);
  must(model.hidden.copy_to(values, model.stream));
  must(model.stream.synchronise());
  for (float& value : values) value = std::copysign(std::max(std::abs(value) - kLambda, 0.0f), value);
  must(model.shrunk.copy_from(values, model.stream));
  must(model.stream.synchronise());  // `values` go
  kiln::profile::fallback("softshrink", "a loop of the host", 2 * values.size() * sizeof(float));
}

template <class Activation>
std::vector<float> show(const char* what, const Model& model, const Activation& activation) {
  std::vector<float> out = model.step(activation);
  must(kiln::profile::start());
  (void)model.step(activation);
  const std::string table = kiln::profile::summary(must(kiln::profile::stop()));
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    const auto start = std::chrono::steady_clock::now();
    (void)model.step(activation);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(times);
  std::printf("%s: %.3f ms a step\n%s\n", what, times[times.size() / 2], table.c_str());
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace kiln::lang;
  const std::string target = argc > 1 ? argv[1] : "cpu";
  kiln::Client client;
  const Model model = make_model(client, target);
  const std::vector<float> by_host = show("activation by the host", model, shrink_on_host);

  auto declared = kernel("softshrink", {"x", "out", "lambda", "n"},
                         [](Ptr<const f32>, Ptr<f32>, f32, i32 n) { grid(cdiv(n, 256)); });
  const bool on_gpu = target == "cuda";
  const kiln::CustomCode code = {.form = on_gpu ? kiln::CodeForm::kPtx : kiln::CodeForm::kLlvmIr,
                                 .text = on_gpu ? kSoftshrinkPtx : kSoftshrinkIr,
                                 .threads = on_gpu ? 256 : 1};
  auto softshrink = must(client.get_custom(declared, code, {.target = target}));
  const std::vector<float> by_kernel = show("activation by a kernel of one's own", model, [&](const Model& m) {
    must(softshrink.launch({.stream = &m.stream}, m.hidden, m.shrunk, kLambda, kRows * kHidden));
  });
  const bool agree = by_host == by_kernel;
  std::printf("results %s\n", agree ? "are equal" : "DIFFER");
  return agree ? 0 : 1;
}
