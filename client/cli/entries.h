// The cache directory as the command line sees it: entries and reports of crashes, read by their own format, with or
// without a daemon. docs/reference/cache-format.md is the manual.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kiln/dsl/binary.h"
#include "kiln/graph/plan_request.h"
#include "kiln/wire/entry.h"

namespace kiln::cli {

struct EntryFile {
  std::string path;
  RequestKey key{};  // from the file's name
};

// The directory named, or the daemon's. An error where there is none.
Result<std::string> cache_root(const std::string& directory);
// Every entry of every builder, sorted by path.
Result<std::vector<EntryFile>> find_entries(const std::string& root);
// The files that imports have not written to their end.
Result<std::vector<std::string>> find_unfinished(const std::string& root);
// The reports of compiles that killed their workers.
std::vector<EntryFile> find_crashes(const std::string& root);

// A file that was read and checked; `view` borrows from `bytes`.
struct LoadedEntry {
  LoadedEntry() = default;
  LoadedEntry(LoadedEntry&&) = default;
  LoadedEntry& operator=(LoadedEntry&&) = default;

  std::vector<std::byte> bytes;
  wire::EntryView view;

  // Reports of crashes are entries without code.
  bool is_crash() const { return view.code.empty(); }
};
Result<LoadedEntry> load_entry(const EntryFile& file);

// At least 8 digits of a key, in hex.
bool is_key(const std::string& text);
// The one entry whose key begins so; else the report of its crash.
Result<EntryFile> find_by_key(const std::string& root, const std::string& digits);

// The request that the entry answers.
Result<dsl::CompileRequest> request_of(const wire::EntryView& entry);
// The same of a graph's plan; none where the request is a kernel's, or cannot be read.
std::optional<graph::PlanRequest> plan_request_of(const wire::EntryView& entry);

}  // namespace kiln::cli
