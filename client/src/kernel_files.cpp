#include "kernel_files.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "kiln/dsl/request.h"
#include "kiln/dsl/text.h"
#include "kiln/wire/files.h"
#include "kiln/wire/trusted.h"

namespace kiln::client {
namespace {

constexpr size_t kHashDigits = 12;
constexpr size_t kMostName = 200;  // of the 255 that a file's name may have

void complain(const std::string& what) { std::fprintf(stderr, "kiln: KILN_KERNEL_FILES: %s\n", what.c_str()); }

// What lies there is written and executed by its name, so nobody else may put anything there, as they may into /tmp.
Result<void> check_closed(const std::string& directory) {
  auto trusted = wire::check_trusted(directory);
  struct stat info{};
  if (!trusted || ::stat(directory.c_str(), &info) != 0 || !(info.st_mode & (S_IWGRP | S_IWOTH))) return trusted;
  if (!(info.st_mode & S_ISVTX)) return trusted;
  return error(ErrorCode::kPermissionDenied,
               directory + " is not used: others can put files there; name a directory of your own below it");
}

// Absolute: the program may change its directory.
std::string make_kept_directory() {
  const char* named = ::secure_getenv("KILN_KERNEL_FILES");
  if (named == nullptr || *named == '\0') return "";
  std::error_code failed;
  const std::filesystem::path directory = std::filesystem::absolute(named, failed);
  if (!failed) std::filesystem::create_directories(directory, failed);
  if (failed) {
    complain(std::string(named) + ": " + failed.message());
    return "";
  }
  if (auto closed = check_closed(directory.string()); !closed) {
    complain(closed.error().message);
    return "";
  }
  return directory.string();
}

// Never destroyed: kernels are loaded while exit() destroys statics.
const std::string& kept_directory() {
  static const std::string& directory = *new std::string(make_kept_directory());
  return directory;
}

std::optional<std::string> keep_kernel_file(const std::string& name, const std::string& suffix,
                                            std::span<const std::byte> bytes) {
  const std::string hash = to_hex(request_key("", bytes)).substr(0, kHashDigits);
  std::string path = kept_directory() + "/" + name.substr(0, kMostName) + "-" + hash + suffix;
  auto written = wire::write_file(path, {{bytes}});
  if (written) return path;
  complain(written.error().message);
  return std::nullopt;
}

}  // namespace

bool keeps_kernel_files() { return !kept_directory().empty(); }

std::shared_ptr<const Module> load_kept(const std::string& name, std::span<const std::byte> code,
                                        const std::string& entry) {
  const auto file = keep_kernel_file(name, ".so", code);
  if (!file) return nullptr;
  auto module = Module::open(*file, entry);
  if (module) return *module;
  complain(module.error().message);
  return nullptr;
}

dsl::Kernel with_lines(const dsl::Kernel& kernel) {
  dsl::Kernel out = kernel;
  out.options.lines = !out.options.debug;
  return out;
}

dsl::Kernel with_lines_of_text(const dsl::Kernel& kernel) {
  const std::string text = dsl::print(kernel);
  const auto file = keep_kernel_file(kernel.name, ".kiln", std::as_bytes(std::span(text)));
  const auto parsed = file ? dsl::parse(text, *file) : Result<dsl::Kernel>(kernel);
  return with_lines(parsed ? *parsed : kernel);
}

}  // namespace kiln::client
