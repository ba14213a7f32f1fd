// Compiled kernels in one file, for images and fleets: `kiln export` writes it, `kiln import` takes it in. Its format
// is in docs/reference/cache-format.md.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kiln/dsl/result.h"
#include "kiln/wire/entry.h"

namespace kiln::cli {

// Of what has gone by so far: HMAC-SHA256 with a key, SHA-256 with an empty one.
class Digest {
 public:
  using Value = std::array<uint8_t, 32>;
  explicit Digest(const std::string& key);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(std::span<const std::byte> bytes);
  Value value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The file appears when it is finished, complete.
class BundleWriter {
 public:
  // With a key, only who has the same takes it without a word of trust.
  static Result<BundleWriter> create(const std::string& path, std::string_view builder_id, const std::string& key);
  BundleWriter(BundleWriter&&) = default;
  ~BundleWriter();

  Result<void> add(std::span<const std::byte> entry);
  Result<void> finish();

 private:
  BundleWriter() = default;
  Result<void> write(std::span<const std::byte> bytes);
  Result<void> sign();

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_, part_;  // what is being written stands beside its place
  std::unique_ptr<std::FILE, Close> file_;
  std::unique_ptr<Digest> digest_;
};

using TakeEntry = std::function<Result<void>(std::span<const std::byte> bytes, const wire::EntryView& entry)>;

// Calls `take` for each entry as it reads, when it has been authenticated by the key, or without one has its checksum,
// and is found to be made by `builder_id`; with a key what has none is refused, and the other way round. That the file
// is whole is known when this returns: whoever writes reads it twice.
Result<size_t> read_bundle(const std::string& path, std::string_view builder_id, const std::string& key,
                           const TakeEntry& take);

}  // namespace kiln::cli
