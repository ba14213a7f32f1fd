#include "records/last_words.h"

#include <algorithm>
#include <string_view>

namespace kiln::autotune {
namespace {

constexpr size_t kHead = 400, kTail = 400;
constexpr size_t kMost = 1u << 20;  // at once, so that one that writes without end cannot hold its reader

}  // namespace

void LastWords::read() {
  char chunk[4096];
  for (size_t taken = 0; taken < kMost;) {
    const ssize_t count = ::read(pipe_.get(), chunk, sizeof chunk);
    if (count <= 0) return;
    taken += static_cast<size_t>(count);
    std::string_view text(chunk, static_cast<size_t>(count));
    const size_t first = std::min(kHead - head_.size(), text.size());
    head_ += text.substr(0, first);
    tail_ += text.substr(first);
    if (tail_.size() <= kTail) continue;
    left_out_ += tail_.size() - kTail;
    tail_.erase(0, tail_.size() - kTail);
  }
}

std::string LastWords::text() const {
  std::string out = head_;
  if (left_out_ > 0) out += " [" + std::to_string(left_out_) + " bytes are left out] ";
  out += tail_;
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
  return out;
}

}  // namespace kiln::autotune
