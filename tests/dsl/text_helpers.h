// Shared by the tests of the language: kernels from text, files of the tree, errors as strings.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"

namespace kiln::dsl::testing {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::filesystem::path source_path(const std::string& relative) {
  return std::filesystem::path(KILN_SOURCE_DIR) / relative;
}

inline std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/golden"))) {
    if (entry.path().extension() == ".kiln") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The kernel of a text that must be sound. Errors speak of `k.kiln`, which does not exist, so they show no source line.
inline Kernel parsed(const std::string& text) {
  auto kernel = parse(text, "k.kiln");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message << "\n" << text;
  if (!kernel) return {};
  auto valid = verify(*kernel);
  EXPECT_TRUE(valid.ok()) << valid.error().message << "\n" << text;
  return std::move(*kernel);
}

inline Kernel golden(const std::string& name) {
  return parsed(read_file(source_path("tests/golden/" + name + ".kiln")));
}

// The first line of an error, "" when there is none.
template <class T>
std::string first_line(const Result<T>& result) {
  if (result) return "";
  return result.error().message.substr(0, result.error().message.find('\n'));
}

}  // namespace kiln::dsl::testing
