// What the tests of records and batch runs share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "kiln/autotune/records.h"
#include "scratch.h"

namespace kiln::autotune {

class ScratchDirectory {
 public:
  ScratchDirectory() : path_(::testing::TempDir() + "kiln-tune-XXXXXX") { ::mkdtemp(path_.data()); }
  ~ScratchDirectory() { test::remove_scratch(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
inline std::string read_text(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

inline RecordKey some_key(const std::string& kernel = "k1") {
  return {kernel, "M=64,N=64", "cpu:x86-64-v3", "EPYC/2", "builder-1"};
}
inline Record some_record(const RecordKey& key, int64_t bm, double median_us, int samples = 9) {
  Record out;
  out.key = key;
  out.config = {{"BM", bm}, {"BN", 64}};
  out.kernel_name = "matmul";
  out.median_us = median_us;
  out.low_us = median_us * 0.99;
  out.high_us = median_us * 1.01;
  out.samples = samples;
  out.figures = {{"registers", 40}};
  out.created_ms = 1000 + bm;
  return out;
}

template <class T>
T expect_ok(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message;
    std::abort();
  }
  return std::move(*result);
}
inline void expect_ok(Result<void> result) { EXPECT_TRUE(result) << result.error().message; }

}  // namespace kiln::autotune
