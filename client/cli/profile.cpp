// kiln profile: runs a program with KILN_PROFILE set.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "commands.h"

namespace kiln::cli {
namespace {

// The program may change its directory before it writes.
Result<std::string> absolute(const std::string& file) {
  if (file.starts_with('/')) return file;
  const std::unique_ptr<char, void (*)(void*)> here(::getcwd(nullptr, 0), std::free);
  if (!here)
    return invalid_argument("profile: the current directory has no name: " + std::string(std::strerror(errno)));
  return std::string(here.get()) + "/" + file;
}

Result<std::string> wish_of(const ProfileFlags& flags) {
  if (flags.no_summary && flags.roofline) return invalid_argument("profile: --roofline is of the summary");
  std::string out = flags.no_summary ? "" : flags.roofline ? "roofline" : "summary";
  if (!flags.trace.empty()) {
    if (flags.trace.find(',') != std::string::npos) {
      return invalid_argument("profile: --trace takes a file without a comma in its name");
    }
    auto file = absolute(flags.trace);
    if (!file) return file;
    out += (out.empty() ? "trace=" : ",trace=") + *file;
  }
  if (out.empty()) return invalid_argument("profile: neither a summary nor --trace: nothing would be shown");
  return out + (flags.device_times ? ",device" : "");
}

}  // namespace

Result<void> profile(const ProfileFlags& flags, std::vector<std::string> program) {
  auto wish = wish_of(flags);
  if (!wish) return wish.error();
  if (::setenv("KILN_PROFILE", wish->c_str(), 1) != 0) return error(ErrorCode::kOutOfMemory, "profile: no memory");
  std::vector<char*> words;
  for (std::string& word : program) words.push_back(word.data());
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  return invalid_argument("profile: " + program.front() + " cannot be started: " + std::strerror(errno));
}

}  // namespace kiln::cli
