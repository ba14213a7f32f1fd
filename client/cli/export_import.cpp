// `kiln export` and `kiln import`: caches that are filled before a machine has asked for anything.
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "bundle.h"
#include "commands.h"
#include "entries.h"
#include "kiln/abi/metadata_json.h"
#include "kiln/client/connection.h"
#include "kiln/wire/fd.h"
#include "kiln/wire/json.h"
#include "kiln/wire/own_file.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/secret.h"

namespace kiln::cli {
namespace {

// The compiler of this installation, by its daemon.
Result<std::string> builder_here(const char* client_name) {
  client::ConnectOptions options;
  options.client_name = client_name;
  auto daemon = client::Connection::open(options);
  if (!daemon) return daemon.error();
  return (*daemon)->server().builder_id;
}

// The running daemon counts its cache anew when it reads its configuration again: what was put there besides its limit
// is seen at once. It says its number itself; where that is of another container, or a service manager listens in its
// place, the socket's own word differs, and nobody is sent a signal.
void have_them_counted() {
  client::ConnectOptions options;
  options.client_name = "kiln import";
  options.autostart = false;
  auto daemon = client::Connection::open(options);
  auto socket = wire::connect_socket(wire::present_runtime_dir());
  if (!daemon || !socket) return;
  const auto process = static_cast<pid_t>((*daemon)->server().pid);
  if (process > 0 && wire::peer_process(socket->get()) == process) ::kill(process, SIGHUP);
}

bool is_wanted(const wire::EntryView& entry, const std::vector<std::string>& kernels) {
  if (kernels.empty()) return true;
  const auto object = wire::parse_object(entry.metadata);
  const auto metadata = object ? abi::metadata_of(*object) : object.error();
  return metadata && std::find(kernels.begin(), kernels.end(), metadata->kernel) != kernels.end();
}

Result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return internal_error(std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

// The directory `name` of another, made where it is missing.
Result<wire::UniqueFd> directory_in(const wire::UniqueFd& parent, const std::string& name) {
  ::mkdirat(parent.get(), name.c_str(), 0700);
  const int fd = wire::open_own_dir(parent.get(), name);
  if (fd < 0) return invalid_argument(name + ": cannot be opened: " + wire::own_file_reason(-fd));
  return wire::UniqueFd(fd);
}

// A name that nobody has: neither another import, nor the rest of one that was killed, whatever its process was called.
std::string unfinished_name(const std::string& entry) {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) {
    number = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return entry + std::string(wire::kUnfinished) + std::to_string(number);
}

// As the daemon does it: data first, then the name. `builder`: the directory of its entries.
Result<void> place_entry(const wire::UniqueFd& builder, std::span<const std::byte> bytes, const RequestKey& key) {
  const std::string hex = to_hex(key), name = hex.substr(2), part = unfinished_name(name);
  auto directory = directory_in(builder, hex.substr(0, 2));
  if (!directory) return directory.error();
  const int fd = wire::open_own_file(directory->get(), part.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0400);
  if (fd < 0) return invalid_argument(hex + ": cannot be written: " + wire::own_file_reason(-fd));
  const wire::UniqueFd file(fd);
  auto written = write_all(fd, bytes);
  if (written && ::fdatasync(fd) == 0 &&
      ::renameat(directory->get(), part.c_str(), directory->get(), name.c_str()) == 0) {
    return {};
  }
  const int number = errno;
  ::unlinkat(directory->get(), part.c_str(), 0);
  return invalid_argument(hex + ": cannot be written: " + std::strerror(number));
}

Result<wire::UniqueFd> builders_directory(const std::string& root, const std::string& builder) {
  auto ours = wire::open_private_dir(root);
  if (!ours) return ours;
  auto entries = directory_in(*ours, "v1");
  auto out = entries ? directory_in(*entries, wire::builder_directory(builder)) : entries.error();
  if (!out) return invalid_argument(root + (entries ? "/v1/" : "/") + out.error().message);
  return out;
}

// Empty: without.
Result<std::string> key_of(const BundleFlags& flags) {
  return flags.key_file.empty() ? Result<std::string>(std::string()) : wire::read_key(flags.key_file);
}

}  // namespace

Result<void> export_bundle(const BundleFlags& flags) {
  auto key = key_of(flags);
  if (!key) return key.error();
  auto root = cache_root(flags.cache_directory);
  if (!root) return root.error();
  auto builder = builder_here("kiln export");
  if (!builder) return builder.error();
  auto files = find_entries(*root);
  if (!files) return files.error();
  auto bundle = BundleWriter::create(flags.file, *builder, *key);
  if (!bundle) return bundle.error();
  size_t count = 0, left_out = 0;
  for (const EntryFile& file : *files) {
    // With a key an export is this user's word for what lies there: not for another's, nor for a second name.
    if (wire::check_own_file(file.path) != 0) {
      ++left_out;
      continue;
    }
    auto entry = load_entry(file);
    const bool ours = entry && entry->view.builder == wire::builder_tag(*builder);
    if (!ours || !is_wanted(entry->view, flags.kernels)) {
      ++left_out;
      continue;
    }
    if (auto added = bundle->add(entry->bytes); !added) return added;
    ++count;
  }
  if (count == 0) return error(ErrorCode::kNotFound, *root + ": no entry to export");
  if (auto done = bundle->finish(); !done) return done;
  std::printf("%zu entries in %s, %zu left out\n", count, flags.file.c_str(), left_out);
  return {};
}

Result<void> import_bundle(const BundleFlags& flags) {
  if (flags.key_file.empty() && !flags.trust) {
    return invalid_argument(flags.file +
                            ": whoever wrote it has code executed here; --key FILE takes only what is authenticated by "
                            "that key, --trust anything");
  }
  auto key = key_of(flags);
  if (!key) return key.error();
  const std::string root = flags.cache_directory.empty() ? wire::default_cache_dir() : flags.cache_directory;
  if (root.empty()) return invalid_argument("there is no cache directory: neither HOME nor KILN_CACHE_DIR is set");
  auto builder = builder_here("kiln import");
  if (!builder) return builder.error();
  auto whole = read_bundle(flags.file, *builder, *key, [](auto, const auto&) { return Result<void>(); });
  if (!whole) return whole.error();
  auto directory = builders_directory(root, *builder);
  if (!directory) return directory.error();
  auto count =
      read_bundle(flags.file, *builder, *key, [&](std::span<const std::byte> bytes, const wire::EntryView& entry) {
        return place_entry(*directory, bytes, entry.key);
      });
  if (!count) return count.error();
  have_them_counted();
  std::printf("%zu entries in %s\n", *count, root.c_str());
  return {};
}

}  // namespace kiln::cli
