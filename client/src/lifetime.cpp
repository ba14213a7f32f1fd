#include "lifetime.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <mutex>

namespace kiln::client {
namespace {

// A handler takes 32 bytes, and there may be any number of objects; few of them are statics.
constexpr uint64_t kMaxWatches = 1 << 16;

thread_local bool forked = false;
std::array<std::atomic<int>, 256> closed_in_child = {};  // descriptor + 1

}  // namespace

constinit std::atomic<uint64_t> Birth::this_process_{0};
constinit std::atomic<bool> Birth::ending_{false};

namespace {
constinit std::timed_mutex linker;
thread_local bool has_linker = false;
}  // namespace

// The child has only the thread that forked, and may take no lock that another could have held.
struct ForkHandlers {
  // Not for ever: the thread that has the turn may wait for one that forks as a library is loaded.
  static void before() { has_linker = linker.try_lock_for(std::chrono::seconds(1)); }
  static void in_parent() {
    if (has_linker) linker.unlock();
  }
  static void in_child() {
    if (has_linker) linker.unlock();
    Birth::this_process_.fetch_add(1, std::memory_order_relaxed);
    forked = true;
    for (std::atomic<int>& slot : closed_in_child) {
      if (const int fd = slot.exchange(0, std::memory_order_relaxed) - 1; fd >= 0) ::close(fd);
    }
  }
};

namespace {

// A shared object that has the client in it stays in the process: its threads run until the end.
void stay_loaded() {
  Dl_info place{};
  link_map* object = nullptr;
  if (::dladdr1(reinterpret_cast<void*>(&stay_loaded), &place, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0)
    return;
  if (object == nullptr || object->l_name[0] == 0) return;  // the program itself
  (void)::dlopen(object->l_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

bool prepare_process() {
  ::pthread_atfork(ForkHandlers::before, ForkHandlers::in_parent, ForkHandlers::in_child);
  stay_loaded();
  return true;
}

}  // namespace

Birth::Birth() {
  static const bool prepared = prepare_process();
  (void)prepared;
  process_ = this_process_.load(std::memory_order_relaxed);
}

void Birth::watch() const {
  static std::atomic<uint64_t> watches{0};
  if (begun_.exchange(true, std::memory_order_relaxed)) return;
  if (watches.fetch_add(1, std::memory_order_relaxed) < kMaxWatches) {
    std::atexit([] { ending_.store(true, std::memory_order_relaxed); });
  }
  watched_.store(true, std::memory_order_release);
}

bool is_forked_thread() { return forked; }

ClosedInChild::ClosedInChild(int fd) {
  for (std::atomic<int>& slot : closed_in_child) {
    int none = 0;
    if (!slot.compare_exchange_strong(none, fd + 1, std::memory_order_relaxed)) continue;
    slot_ = &slot;
    return;
  }
}

ClosedInChild::~ClosedInChild() {
  if (slot_ != nullptr) slot_->store(0, std::memory_order_relaxed);
}

LinkerTurn::LinkerTurn() { linker.lock(); }
LinkerTurn::~LinkerTurn() { linker.unlock(); }

void Birth::keep() const {
  static std::atomic<const Birth*> newest{nullptr};
  if (kept_.exchange(true, std::memory_order_relaxed)) return;
  next_kept_ = newest.exchange(this, std::memory_order_acq_rel);
}

}  // namespace kiln::client
