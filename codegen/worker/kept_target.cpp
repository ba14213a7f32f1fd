#include "kept_target.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "kiln/wire/entry.h"
#include "kiln/wire/own_file.h"
#include "kiln/wire/paths.h"

namespace kiln::worker {
namespace {

constexpr const char* kDirectory = "targets";
constexpr std::string_view kMagic = "kiln-target 1\n";  // another way to measure is another number
constexpr size_t kMostBytes = 16 << 10;
// A process that measures has done so long before.
constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kPoll = std::chrono::milliseconds(2);

// At most so many bytes from its beginning.
std::optional<std::string> read_all(int fd, size_t most) {
  std::string out(most, 0);
  size_t size = 0;
  for (ssize_t count; size < most; size += static_cast<size_t>(count)) {
    count = ::read(fd, out.data() + size, most - size);
    if (count < 0) return std::nullopt;
    if (count == 0) break;
  }
  out.resize(size);
  return out;
}

// What decides a measurement beside LLVM's name of the processor and its features: the model, as its maker calls it,
// and its microcode, of the first core.
std::string model_of_processor() {
  const wire::UniqueFd file(::open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC));
  // No more of it: of hundreds of cores the whole takes a while.
  std::istringstream text(file ? read_all(file.get(), 4096).value_or("") : "");
  std::string out;
  for (std::string line; std::getline(text, line) && !line.empty();) {
    if (!line.starts_with("model name") && !line.starts_with("microcode")) continue;
    out += line.substr(std::min(line.find(':'), line.size())) + "\n";
  }
  return out;
}

struct Place {
  wire::UniqueFd directory;
  std::string name, head;  // of the file; what it begins with
};

std::optional<Place> find_place(const std::string& cache, const std::string& processor) {
  auto root = wire::open_private_dir(cache);
  if (!root) return std::nullopt;
  (void)::mkdirat(root->get(), kDirectory, 0700);
  Place out;
  out.directory.reset(wire::open_own_dir(root->get(), kDirectory));
  if (!out.directory) return std::nullopt;
  out.head = std::string(kMagic) + processor + "\n" + model_of_processor();
  out.name = wire::builder_directory(out.head);
  return out;
}

// What is kept there, if it is of this processor, and could be measured.
std::optional<std::string> read_kept(const Place& place, const NativeTarget& native) {
  const wire::UniqueFd file(wire::open_own_file(place.directory.get(), place.name.c_str(), O_RDONLY));
  auto text = file ? read_all(file.get(), kMostBytes) : std::nullopt;
  if (!text || !text->starts_with(place.head) || !text->ends_with('\n')) return std::nullopt;
  text->pop_back();
  if (text->size() < place.head.size()) return std::nullopt;  // without a last line
  std::string rest = text->substr(place.head.size());
  if (!native.may_be(rest)) return std::nullopt;
  return rest;
}

// One at a time looks, measures and keeps, as far as the file system has locks.
void lock(const Place& place) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (::flock(place.directory.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    if (std::chrono::steady_clock::now() > end) return;
    std::this_thread::sleep_for(kPoll);
  }
}

// Whole or not at all; what a power cut has torn is a bad file.
void keep(const Place& place, const std::string& rest) {
  const std::string temporary = place.name + "." + std::to_string(::getpid());
  (void)::unlinkat(place.directory.get(), temporary.c_str(), 0);  // of a process of the same number that was killed
  const wire::UniqueFd file(
      wire::open_own_file(place.directory.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0400));
  if (!file) return;
  const std::string text = place.head + rest + "\n";
  const bool written =
      ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fdatasync(file.get()) == 0 &&
      ::renameat(place.directory.get(), temporary.c_str(), place.directory.get(), place.name.c_str()) == 0;
  if (!written) (void)::unlinkat(place.directory.get(), temporary.c_str(), 0);
}

}  // namespace

std::string native_target_kept_in(const std::string& cache, const NativeTarget& native) {
  if (!native.measure) return native.processor;
  auto place = cache.empty() ? std::nullopt : find_place(cache, native.processor);
  if (!place) return native.processor + native.measure();
  if (auto kept = read_kept(*place, native)) return native.processor + *kept;
  lock(*place);  // until the directory is closed
  if (auto kept = read_kept(*place, native)) return native.processor + *kept;
  const std::string measured = native.measure();
  keep(*place, measured);
  return native.processor + measured;
}

}  // namespace kiln::worker
