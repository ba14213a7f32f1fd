// What a recorded sequence of 50 small kernels costs the host against its launches one by one: on a CPU's stream of two
// processors, and on a GPU where there is one (`bench-replay cuda`). The calls alone, and until all of it is done; by
// turns, medians. On CPUs also launches without a stream, each of which is done when the call returns.
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "bench_tools.h"
#include "kiln/client/client.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/kernel.h"

namespace {

using kiln::bench::median;
using kiln::bench::need;

constexpr int kKernels = 50, kRounds = 301, kElements = 4096;

auto increment() {
  using namespace kiln::lang;
  return kernel("increment", {"x", "n", "BLOCK=1024"}, [](Ptr<f32> x, i32 n, Const BLOCK) {
    grid(cdiv(n, BLOCK));
    const Value start = program_id(0) * BLOCK;
    tile(x, {n}).store({start}, tile(x, {n}).load({start}, {BLOCK}) + 1);
  });
}

double us_of(const std::function<void()>& work) {
  const auto begun = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count();
}

// Of one way: the calls, and until the stream is done.
struct Times {
  std::vector<double> calls, done;
};

void measure(Times& times, const kiln::Stream& stream, const std::function<void()>& work) {
  double calls = 0;
  times.done.push_back(us_of([&] {
    calls = us_of(work);
    need(stream.synchronise());
  }));
  times.calls.push_back(calls);
}

void print(const char* what, double one_by_one, double replayed) {
  std::printf("%-34s %14.3f %14.3f %10.1f\n", what, one_by_one / kKernels, replayed / kKernels, one_by_one / replayed);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const kind = argc > 1 ? argv[1] : "cpu";
  const bool on_cpu = std::string_view(kind) == "cpu";
  kiln::ClientOptions options;
  options.specialise_in_background = false;
  kiln::Client client(options);
  const auto device = need(kiln::Device::open(kind));
  kiln::StreamOptions where;
  if (on_cpu) where.cores = need(kiln::split_cores(1)).front();
  if (where.cores.size() > 2) where.cores.resize(2);
  const auto stream = need(kiln::Stream::create(device, where));
  const auto x = need(kiln::DeviceBuffer<float>::allocate(device, kElements));
  need(x.fill(0, stream));
  const auto fn = need(client.get(increment(), {.target = kind}));
  need(fn.untyped().prepare(std::vector{x.argument(), kiln::client::to_argument(kElements)}));

  const auto queue_all = [&]() -> kiln::Result<void> {
    for (int i = 0; i < kKernels; ++i) {
      if (auto queued = fn.launch({.stream = &stream}, x, kElements); !queued) return queued;
    }
    return {};
  };
  const auto recording = need(kiln::Recording::capture(stream, queue_all));
  Times launched, replayed;
  std::vector<double> at_once;
  for (int round = 0; round < kRounds; ++round) {
    measure(launched, stream, [&] { need(queue_all()); });
    measure(replayed, stream, [&] { need(recording.replay(stream)); });
    if (!on_cpu) continue;
    at_once.push_back(us_of([&] {
      for (int i = 0; i < kKernels; ++i) need(fn.launch({.threads = 2}, x, kElements));
    }));
  }
  std::vector<float> host(kElements);
  need(x.copy_to(host, stream));
  need(stream.synchronise());
  const int each = on_cpu ? 3 : 2;
  if (host[kElements - 1] != static_cast<float>(each * kRounds * kKernels)) kiln::bench::fail("a result is wrong");

  std::printf("%d kernels of %d elements on %s, microseconds a kernel, medians of %d\n", kKernels, kElements, kind,
              kRounds);
  std::printf("%-34s %14s %14s %10s\n", "", "one by one", "a replay", "times");
  print("the calls, on a stream", median(launched.calls), median(replayed.calls));
  print("until all is done, on a stream", median(launched.done), median(replayed.done));
  if (on_cpu) print("calls that wait, two threads", median(at_once), median(replayed.done));
}
