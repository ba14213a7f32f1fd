#include "owners.h"

#include <unistd.h>

#include "kiln/wire/paths.h"
#include "processes/process_state.h"

namespace kiln::server {
namespace {

constexpr uint64_t kOfAConnection = uint64_t{1} << 63;

uint64_t started_at(pid_t process) {
  const auto state = process_state(process);
  return state && !state->ended ? state->started : 0;
}

// Where /proc is not to be read, nothing is known of anybody.
bool can_see_processes() {
  static const bool can = process_state(::getpid()).has_value();
  return can;
}

}  // namespace

Owner Owners::of(int fd, uint64_t connection) {
  const pid_t process = wire::peer_process(fd);
  if (process <= 0) return {connection | kOfAConnection, 0};
  if (!can_see_processes()) return {static_cast<uint64_t>(process), 0};
  const uint64_t started = started_at(process);
  return {started ? static_cast<uint64_t>(process) : kEnded, started};
}

bool Owners::has_ended(const Owner& owner, Clock::time_point now) {
  if (owner.id == kEnded || owner.started == 0) return owner.id == kEnded;
  const auto [look, is_new] = looks_.try_emplace(owner.id);
  if (is_new || now - look->second.taken >= kLook) look->second = {started_at(static_cast<pid_t>(owner.id)), now};
  return look->second.started != owner.started;
}

}  // namespace kiln::server
