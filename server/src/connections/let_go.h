// Giving many pages back to the system takes milliseconds, for which the io thread would do nothing else: a thread of
// its own does it.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "kiln/wire/crash_report.h"
#include "kiln/wire/frame.h"

namespace kiln::server {

inline void let_go(std::vector<std::byte> bytes) {
  if (bytes.capacity() <= wire::kLargeBody) return;
  try {
    std::thread(wire::reporting([](const std::vector<std::byte>& /*many*/) {}), std::move(bytes)).detach();
  } catch (const std::exception&) {  // there can be none: here and now
  }
}

// Bytes that go so when the last owner has gone.
inline std::shared_ptr<const std::vector<std::byte>> share(std::vector<std::byte> bytes) {
  struct Held {
    std::vector<std::byte> bytes;
    ~Held() { let_go(std::move(bytes)); }
  };
  auto held = std::make_shared<Held>(std::move(bytes));
  return {held, &held->bytes};
}

}  // namespace kiln::server
