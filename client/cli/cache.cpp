// `kiln cache`: the entries on disk, read by their own format; no daemon needed. A file that is deleted under a running
// daemon is a miss to it.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "commands.h"
#include "files.h"
#include "kiln/wire/entry.h"
#include "kiln/wire/paths.h"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;

struct EntryFile {
  std::string path;
  std::string key;  // hex, from the names of directory and file
};

Result<std::string> cache_root(const std::string& directory) {
  const std::string root = directory.empty() ? wire::default_cache_dir() : directory;
  std::error_code none;
  if (root.empty()) return invalid_argument("there is no cache directory: neither HOME nor KILN_CACHE_DIR is set");
  if (!fs::is_directory(root, none)) return invalid_argument(root + ": no such cache directory");
  return root;
}

// v1/<builder>/<first two digits of the key>/<the others>
Result<std::vector<EntryFile>> find_entries(const std::string& directory) {
  auto root = cache_root(directory);
  if (!root) return root.error();
  std::vector<EntryFile> out;
  std::error_code failed;
  for (auto item =
           fs::recursive_directory_iterator(*root + "/v1", fs::directory_options::skip_permission_denied, failed);
       !failed && item != fs::recursive_directory_iterator(); item.increment(failed)) {
    const std::string key = item->path().parent_path().filename().string() + item->path().filename().string();
    RequestKey parsed{};
    std::error_code ignored;
    if (item->is_regular_file(ignored) && parse_hex(key, parsed)) out.push_back({item->path().string(), key});
  }
  std::sort(out.begin(), out.end(), [](const EntryFile& a, const EntryFile& b) { return a.path < b.path; });
  return out;
}

// Why the file is no good, or its contents' description.
Result<std::string> describe(const EntryFile& file) {
  auto bytes = read_text(file.path);
  if (!bytes) return bytes.error();
  auto entry = wire::decode_entry(std::as_bytes(std::span(*bytes)));
  if (!entry) return entry.error();
  if (to_hex(entry->key) != file.key) return internal_error("it belongs to another key");
  auto artifact = wire::to_artifact(*entry);
  if (!artifact) return artifact.error();
  auto text = [&](const char* name) {
    const auto value = artifact->metadata.find(name);
    return value != artifact->metadata.end() && value->is_string() ? value->get<std::string>() : std::string("?");
  };
  return text("kernel") + "  " + text("target").substr(0, 40) + "  " + std::to_string(entry->code.size()) + " bytes";
}

}  // namespace

Result<void> cache_list(const std::string& directory) {
  auto entries = find_entries(directory);
  if (!entries) return entries.error();
  for (const EntryFile& file : *entries) {
    auto description = describe(file);
    std::printf("%s  %s\n", file.key.c_str(),
                description ? description->c_str() : ("damaged: " + description.error().message).c_str());
  }
  return {};
}

Result<void> cache_verify(const std::string& directory) {
  auto entries = find_entries(directory);
  if (!entries) return entries.error();
  size_t damaged = 0;
  for (const EntryFile& file : *entries) {
    auto description = describe(file);
    if (description) continue;
    ++damaged;
    std::printf("%s: %s\n", file.path.c_str(), description.error().message.c_str());
  }
  std::printf("%zu entries, %zu damaged\n", entries->size(), damaged);
  if (damaged > 0) return internal_error(std::to_string(damaged) + " entries are damaged; the daemon recompiles them");
  return {};
}

Result<void> cache_clear(const std::string& directory) {
  auto entries = find_entries(directory);
  if (!entries) return entries.error();
  size_t removed = 0;
  for (const EntryFile& file : *entries) {
    std::error_code failed;
    removed += fs::remove(file.path, failed) ? 1 : 0;
    if (failed) return invalid_argument(file.path + ": cannot be removed: " + failed.message());
  }
  std::printf("%zu entries removed\n", removed);
  return {};
}

}  // namespace kiln::cli
