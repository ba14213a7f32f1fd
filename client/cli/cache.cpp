// `kiln cache`: the entries on disk, read by their own format; no daemon needed. A file that is deleted under a running
// daemon is a miss to it.
#include <cstdio>
#include <filesystem>

#include "commands.h"
#include "entries.h"
#include "kiln/wire/printable.h"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;

// Why the file is no good, or its contents' description.
Result<std::string> describe(const EntryFile& file) {
  auto entry = load_entry(file);
  if (!entry) return entry.error();
  auto artifact = wire::to_artifact(entry->view);
  if (!artifact) return artifact.error();
  const auto known = [](const std::string& text) { return text.empty() ? std::string("?") : text; };
  return known(artifact->metadata.kernel) + "  " + known(artifact->metadata.target).substr(0, 40) + "  " +
         std::to_string(artifact->code.size()) + " bytes";
}

Result<std::vector<EntryFile>> all_entries(const std::string& directory) {
  auto root = cache_root(directory);
  if (!root) return root.error();
  return find_entries(*root);
}

// Whether it was there.
Result<bool> remove_file(const std::string& path) {
  std::error_code failed;
  const bool was_there = fs::remove(path, failed);
  if (failed) return invalid_argument(path + ": cannot be removed: " + failed.message());
  return was_there;
}

}  // namespace

Result<void> cache_list(const std::string& directory) {
  auto entries = all_entries(directory);
  if (!entries) return entries.error();
  for (const EntryFile& file : *entries) {
    auto description = describe(file);
    const std::string about = description ? *description : "damaged: " + description.error().message;
    std::printf("%s  %s\n", to_hex(file.key).c_str(), wire::printable(about).c_str());
  }
  return {};
}

Result<void> cache_verify(const std::string& directory) {
  auto entries = all_entries(directory);
  if (!entries) return entries.error();
  size_t damaged = 0;
  for (const EntryFile& file : *entries) {
    auto description = describe(file);
    if (description) continue;
    ++damaged;
    std::printf("%s: %s\n", wire::printable(file.path).c_str(), wire::printable(description.error().message).c_str());
  }
  std::printf("%zu entries, %zu damaged\n", entries->size(), damaged);
  if (damaged > 0) return internal_error(std::to_string(damaged) + " entries are damaged; the daemon recompiles them");
  return {};
}

Result<void> cache_clear(const std::string& directory) {
  auto root = cache_root(directory);
  if (!root) return root.error();
  auto entries = find_entries(*root);
  if (!entries) return entries.error();
  auto unfinished = find_unfinished(*root);
  if (!unfinished) return unfinished.error();
  size_t removed = 0;
  for (const EntryFile& file : *entries) {
    auto was_there = remove_file(file.path);
    if (!was_there) return was_there.error();
    removed += *was_there ? 1 : 0;
  }
  for (const std::string& path : *unfinished) {
    if (auto gone = remove_file(path); !gone) return gone.error();
  }
  std::printf("%zu entries removed\n", removed);
  return {};
}

}  // namespace kiln::cli
