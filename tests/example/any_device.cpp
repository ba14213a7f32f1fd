// One program text for every device: streams that wait for each other, events, memory, a recording and a profile.
//
//   any-device [cpu|cuda|amd]
//
// docs/use/devices.md takes it apart.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "kiln/client/client.h"
#include "kiln/client/gpu.h"
#include "kiln/client/profile.h"
#include "kiln/dsl/kernel.h"

namespace {

constexpr int kCount = 100'000, kReplays = 10;

template <class T>
T must(kiln::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// y += x.
auto accumulate() {
  using namespace kiln::lang;
  return kernel("accumulate", {"x", "y", "n", "BLOCK=1024"}, [](Ptr<const f32> x, Ptr<f32> y, i32 n, Const BLOCK) {
    grid(cdiv(n, BLOCK));
    const Value start = program_id(0) * BLOCK;
    const Value sum = tile(y, {n}).load({start}, {BLOCK}) + tile(x, {n}).load({start}, {BLOCK});
    tile(y, {n}).store({start}, sum);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const char* const kind = argc > 1 ? argv[1] : "cpu";
  using Buffer = kiln::DeviceBuffer<float>;
  must(kiln::profile::start({.device_times = true}));
  kiln::Client client;
  const kiln::Device device = must(kiln::Device::open(kind));
  const kiln::Stream copies = must(kiln::Stream::create(device)), work = must(kiln::Stream::create(device));
  const kiln::Event arrived = must(kiln::Event::create(device)), begun = must(kiln::Event::create(device)),
                    done = must(kiln::Event::create(device));
  const Buffer x = must(Buffer::allocate(device, kCount)), y = must(Buffer::allocate(device, kCount));
  const auto add = must(client.get(accumulate(), {.target = kind}));

  // Copies on one stream, and the work behind them on another.
  std::vector<float> host(kCount), back(kCount);
  std::iota(host.begin(), host.end(), 0.0f);
  must(x.copy_from(host, copies));
  must(y.fill(0, copies));
  must(arrived.record(copies));
  must(arrived.hold_back(work));

  // A sequence that is recorded once and replayed by one call.
  const auto step = must(kiln::Recording::capture(work, [&]() -> kiln::Result<void> {
    for (int i = 0; i < 3; ++i) {
      if (auto queued = add.launch({.stream = &work}, x, y, kCount); !queued) return queued;
    }
    return {};
  }));
  must(begun.record(work));
  for (int i = 0; i < kReplays; ++i) must(step.replay(work));
  must(done.record(work));
  must(y.copy_to(back, work));
  must(work.synchronise());

  const kiln::MemoryUse use = device.memory_use();
  const auto profile = must(kiln::profile::stop());
  std::printf("%s: y[7] = %g, %d replays in %.3f ms, %llu bytes\n", kind, double{back[7]}, kReplays,
              double{must(kiln::elapsed_ms(begun, done))}, static_cast<unsigned long long>(use.bytes));
  std::fputs(kiln::profile::summary(profile).c_str(), stdout);
  for (int i = 0; i < kCount; ++i) {
    const auto at = static_cast<size_t>(i);
    if (back[at] != 3.0f * kReplays * host[at]) return std::printf("y[%d] is %g\n", i, double{back[at]}), 1;
  }
  std::puts("every element is right");
  return 0;
}
