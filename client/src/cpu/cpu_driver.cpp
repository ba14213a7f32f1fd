#include "cpu/cpu_driver.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include "cpu/cores.h"
#include "cpu/event.h"
#include "cpu/work_queue.h"
#include "kiln/client/host_memory.h"

namespace kiln::client::cpu {
namespace {

using gpu::Handle;

// "model name" of the first processor; the architecture's name says less, but is always there.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    if (const size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  }
  return "this machine's processors";
}

DeviceInfo inspect() {
  DeviceInfo info;
  info.kind = kKind;
  info.name = processor_name();
  info.target = kKind;
  info.memory_bytes = static_cast<uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0L)) *
                      static_cast<uint64_t>(std::max(::sysconf(_SC_PAGESIZE), 0L));
  info.multiprocessors = static_cast<uint32_t>(usable_cores().size());
  info.cache_bytes = static_cast<uint64_t>(std::max(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0L));
  return info;
}

WorkQueue& queue_of(Handle stream) { return *static_cast<WorkQueue*>(stream); }
Event& event_of(Handle event) { return **static_cast<std::shared_ptr<Event>*>(event); }
std::shared_ptr<Event> shared_event(Handle event) { return *static_cast<std::shared_ptr<Event>*>(event); }

Error no_modules() { return internal_error("a CPU loads no modules"); }

class CpuDriver final : public gpu::Driver {
 public:
  const DeviceInfo& info() const override { return info_; }
  Result<void> check_runs(const std::string& target, const std::string&) const override {
    return invalid_argument("code for " + target + " does not run on a CPU");
  }
  bool broken() const override { return false; }

  Result<void*> allocate_memory(uint64_t bytes) override {
    auto memory = HostMemory::allocate(bytes);
    if (!memory) return memory.error();
    void* data = memory->data();
    std::lock_guard lock(mutex_);
    memory_.emplace(data, std::move(*memory));
    return data;
  }
  void free_memory(void* memory) override {
    wait_for_all();
    std::lock_guard lock(mutex_);
    memory_.erase(memory);
  }
  Result<void> copy(void* to, const void* from, uint64_t bytes, Handle stream) override {
    return push(stream, [=]() -> Result<void> {
      std::memmove(to, from, bytes);
      return {};
    });
  }
  Result<void> fill(void* to, uint8_t value, uint64_t bytes, Handle stream) override {
    return push(stream, [=]() -> Result<void> {
      std::memset(to, value, bytes);
      return {};
    });
  }

  Result<Handle> create_stream() override { return create_stream({}); }
  Result<Handle> create_stream(std::span<const int> cores) override {
    if (auto fine = check_cores(cores); !fine) return fine.error();
    auto queue = WorkQueue::start({cores.begin(), cores.end()});
    if (!queue) return queue.error();
    const Handle handle = queue->get();
    std::lock_guard lock(mutex_);
    queues_.emplace(queue->get(), std::move(*queue));
    return handle;
  }
  void destroy_stream(Handle stream) override {
    std::shared_ptr<WorkQueue> queue;
    {
      std::lock_guard lock(mutex_);
      queue = std::move(queues_.extract(&queue_of(stream)).mapped());
    }
    queue->birth().stays() ? queue->keep() : queue->end();
  }
  Result<void> check_stream(Handle stream) const override {
    std::lock_guard lock(mutex_);
    if (stream == nullptr || queues_.contains(static_cast<WorkQueue*>(stream))) return {};
    return invalid_argument("a CPU has no streams of other libraries: only those of Stream::create() can be wrapped");
  }
  Result<void> synchronise_stream(Handle stream) override {
    return stream == nullptr ? Result<void>() : queue_of(stream).wait();
  }
  Result<void> synchronise() override {
    Result<void> first;
    for (const auto& queue : queues()) {
      auto done = queue->wait();
      if (!done && first.ok()) first = std::move(done);
    }
    return first;
  }

  Result<Handle> create_event() override { return Handle(new std::shared_ptr<Event>(std::make_shared<Event>())); }
  void destroy_event(Handle event) override { delete static_cast<std::shared_ptr<Event>*>(event); }
  Result<void> record_event(Handle event, Handle stream) override {
    const uint64_t recording = event_of(event).record();
    if (stream == nullptr) {
      event_of(event).reach(recording);
      return {};
    }
    return queue_of(stream).push([event = shared_event(event), recording](bool) -> Result<void> {
      event->reach(recording);
      return {};
    });
  }
  Result<void> synchronise_event(Handle event) override {
    event_of(event).wait(event_of(event).last());
    return {};
  }
  Result<bool> is_done(Handle event) override { return event_of(event).is_reached(); }
  Result<void> wait_for_event(Handle stream, Handle event) override {
    const uint64_t recording = event_of(event).last();
    if (stream == nullptr) {
      event_of(event).wait(recording);
      return {};
    }
    return queue_of(stream).push([event = shared_event(event), recording](bool) -> Result<void> {
      event->wait(recording);
      return {};
    });
  }
  Result<float> elapsed_ms(Handle from, Handle to) override {
    const auto begin = event_of(from).when(), end = event_of(to).when();
    if (!begin || !end) return invalid_argument("an event that is not done, or was never recorded, has no time");
    return std::chrono::duration<float, std::milli>(*end - *begin).count();
  }

  Result<void> begin_capture(Handle stream) override {
    if (stream == nullptr) return invalid_argument("the default stream of a CPU runs at once, and cannot be captured");
    return queue_of(stream).begin_capture();
  }
  Result<Handle> end_capture(Handle stream) override {
    auto works = queue_of(stream).end_capture();
    if (!works) return works.error();
    return Handle(new Recorded(std::make_shared<const std::vector<Work>>(std::move(*works))));
  }
  Result<void> replay(Handle graph, Handle stream) override {
    auto all = [works = *static_cast<Recorded*>(graph)](bool failed) -> Result<void> {
      Result<void> first;
      for (const Work& work : *works) {
        auto ran = work(failed);
        if (!ran && first.ok()) first = std::move(ran);
        failed = failed || !first;
      }
      return first;
    };
    return stream == nullptr ? all(false) : queue_of(stream).push(std::move(all));
  }
  void destroy_graph(Handle graph) override { delete static_cast<Recorded*>(graph); }

  Result<Handle> load_module(std::span<const std::byte>) override { return no_modules(); }
  void unload_module(Handle) override {}
  Result<Handle> find_kernel(Handle, const std::string&, uint32_t) override { return no_modules(); }
  Result<void> launch(const gpu::KernelLaunch&) override { return no_modules(); }
  Result<void> encode_tensor_map(const gpu::TensorMapArguments&, void*) override { return no_modules(); }

 private:
  using Recorded = std::shared_ptr<const std::vector<Work>>;

  // Errors stay for who waits for the streams.
  void wait_for_all() {
    for (const auto& queue : queues()) queue->wait_until_idle();
  }
  // Waiting is for who holds no lock: work may allocate and free.
  std::vector<std::shared_ptr<WorkQueue>> queues() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<WorkQueue>> out;
    for (const auto& [key, queue] : queues_) out.push_back(queue);
    return out;
  }

  const DeviceInfo info_ = inspect();
  mutable std::mutex mutex_;
  std::map<void*, HostMemory> memory_;
  std::map<const WorkQueue*, std::shared_ptr<WorkQueue>> queues_;
};

}  // namespace

Result<std::vector<DeviceInfo>> list() { return std::vector<DeviceInfo>{inspect()}; }

Result<std::unique_ptr<gpu::Driver>> open(int ordinal) {
  if (ordinal != 0)
    return invalid_argument("there is no device cpu:" + std::to_string(ordinal) + "; all processors are cpu:0");
  return std::unique_ptr<gpu::Driver>(std::make_unique<CpuDriver>());
}

int core_count(Handle stream) { return static_cast<int>(queue_of(stream).cores().size()); }

Result<void> push(Handle stream, std::function<Result<void>()> work) {
  if (stream == nullptr) return work();
  return queue_of(stream).push([work = std::move(work)](bool failed) { return failed ? Result<void>() : work(); });
}

}  // namespace kiln::client::cpu
