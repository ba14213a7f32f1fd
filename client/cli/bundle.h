// Compiled kernels in one file, for images and fleets: `kiln export` writes it, `kiln import` takes it in. Its format
// is in docs/cache-format.md.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kiln/dsl/result.h"
#include "kiln/wire/entry.h"

namespace kiln::cli {

// SHA-256 of what goes by.
class Digest {
 public:
  using Value = std::array<uint8_t, 32>;
  Digest();
  ~Digest();
  void add(std::span<const std::byte> bytes);
  Value finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The file appears when it is finished, complete.
class BundleWriter {
 public:
  static Result<BundleWriter> create(const std::string& path, std::string_view builder_id);
  BundleWriter(BundleWriter&&) = default;
  ~BundleWriter();

  Result<void> add(std::span<const std::byte> entry);
  Result<void> finish();

 private:
  BundleWriter() = default;
  Result<void> write(std::span<const std::byte> bytes);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_, part_;  // what is being written stands beside its place
  std::unique_ptr<std::FILE, Close> file_;
  std::unique_ptr<Digest> digest_ = std::make_unique<Digest>();
};

using TakeEntry = std::function<Result<void>(std::span<const std::byte> bytes, const wire::EntryView& entry)>;

// Calls `take` for each entry as it reads; every entry has been checked, and was made by `builder_id`. That the file is
// whole is known when this returns: whoever writes reads it twice.
Result<size_t> read_bundle(const std::string& path, std::string_view builder_id, const TakeEntry& take);

}  // namespace kiln::cli
