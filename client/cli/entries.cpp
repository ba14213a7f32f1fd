#include "entries.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "kiln/wire/files.h"
#include "kiln/wire/messages.h"
#include "kiln/wire/paths.h"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMinDigits = 8;

void sort_by_path(std::vector<EntryFile>& files) {
  std::sort(files.begin(), files.end(), [](const EntryFile& a, const EntryFile& b) { return a.path < b.path; });
}

// A link in a cache leads to what is not in the cache.
bool is_file(const fs::directory_entry& item) {
  std::error_code ignored;
  return item.symlink_status(ignored).type() == fs::file_type::regular;
}

bool is_link(const std::string& path) {
  std::error_code ignored;
  return fs::is_symlink(fs::symlink_status(path, ignored));
}

// What lies below `v1` as v1/<builder>/<first two digits of a key>/<the others> does: both parts of the name, joined.
Result<void> walk_entries(const std::string& root,
                          const std::function<void(const std::string& name, const std::string& path)>& take) {
  if (is_link(root + "/v1")) return invalid_argument(root + "/v1: it is a link, which is not followed");
  std::error_code failed;
  for (auto item =
           fs::recursive_directory_iterator(root + "/v1", fs::directory_options::skip_permission_denied, failed);
       !failed && item != fs::recursive_directory_iterator(); item.increment(failed)) {
    const std::string name = item->path().parent_path().filename().string() + item->path().filename().string();
    if (is_file(*item)) take(name, item->path().string());
  }
  return {};
}

}  // namespace

Result<std::string> cache_root(const std::string& directory) {
  const std::string root = directory.empty() ? wire::default_cache_dir() : directory;
  std::error_code none;
  if (root.empty()) return invalid_argument("there is no cache directory: neither HOME nor KILN_CACHE_DIR is set");
  if (!fs::is_directory(root, none)) return invalid_argument(root + ": no such cache directory");
  return root;
}

Result<std::vector<EntryFile>> find_entries(const std::string& root) {
  std::vector<EntryFile> out;
  auto walked = walk_entries(root, [&](const std::string& name, const std::string& path) {
    RequestKey key{};
    if (parse_hex(name, key)) out.push_back({path, key});
  });
  if (!walked) return walked.error();
  sort_by_path(out);
  return out;
}

Result<std::vector<std::string>> find_unfinished(const std::string& root) {
  std::vector<std::string> out;
  auto walked = walk_entries(root, [&](const std::string& name, const std::string& path) {
    RequestKey key{};
    const size_t end = name.find(wire::kUnfinished);
    if (end != std::string::npos && parse_hex(name.substr(0, end), key)) out.push_back(path);
  });
  if (!walked) return walked.error();
  return out;
}

std::vector<EntryFile> find_crashes(const std::string& root) {
  std::vector<EntryFile> out;
  if (is_link(root + "/crashes")) return out;
  std::error_code failed;
  for (auto item = fs::directory_iterator(root + "/crashes", failed); !failed && item != fs::directory_iterator();
       item.increment(failed)) {
    RequestKey parsed{};
    if (is_file(*item) && parse_hex(item->path().filename().string(), parsed))
      out.push_back({item->path().string(), parsed});
  }
  sort_by_path(out);
  return out;
}

Result<LoadedEntry> load_entry(const EntryFile& file) {
  auto input = wire::InputFile::open(file.path);
  if (!input) return input.error();
  if (input->remaining() > wire::kMaxEntrySize) return invalid_argument(file.path + ": too large for an entry");
  LoadedEntry out;
  out.bytes.resize(input->remaining());
  if (!input->read(out.bytes.data(), out.bytes.size())) return invalid_argument(file.path + ": cannot be read");
  auto view = wire::decode_entry(out.bytes);
  if (!view) return view.error();
  if (view->key != file.key) return internal_error("it belongs to another key");
  out.view = *view;
  return out;
}

bool is_key(const std::string& text) {
  return text.size() >= kMinDigits && text.size() <= 2 * RequestKey().size() &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Result<EntryFile> find_by_key(const std::string& root, const std::string& digits) {
  auto entries = find_entries(root);
  if (!entries) return entries.error();
  for (const std::vector<EntryFile>& files : {*entries, find_crashes(root)}) {
    std::vector<EntryFile> found;
    std::copy_if(files.begin(), files.end(), std::back_inserter(found),
                 [&](const EntryFile& file) { return to_hex(file.key).starts_with(digits); });
    if (found.size() == 1) return found.front();
    if (found.size() > 1) {
      return invalid_argument(digits + ": " + std::to_string(found.size()) + " keys begin so, " + to_hex(found[0].key) +
                              " and " + to_hex(found[1].key) + " among them");
    }
  }
  return error(ErrorCode::kNotFound, digits + ": neither an entry nor the report of a crash in " + root);
}

Result<dsl::CompileRequest> request_of(const wire::EntryView& entry) {
  if (entry.request.empty()) return error(ErrorCode::kNotFound, "its request was too large to be kept");
  auto body = wire::split_compile_body(entry.request);
  if (!body) return body.error();
  return dsl::decode_request(body->canonical, body->debug);
}

std::optional<graph::PlanRequest> plan_request_of(const wire::EntryView& entry) {
  auto body = wire::split_compile_body(entry.request);
  if (!body || !graph::is_plan_request(body->canonical)) return std::nullopt;
  auto request = graph::decode_plan_request(body->canonical, body->debug);
  return request ? std::optional(std::move(*request)) : std::nullopt;
}

}  // namespace kiln::cli
