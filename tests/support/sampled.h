// A part of a test's cases. Products of kernels, shapes and targets take minutes, and each default run has some of
// them; with the variable KILN_TEST_ALL, which `tests/run.sh --long` sets, all.
//
// Which ones is the same in every run: where a part begins is said by the test's name, and each further call from the
// same line of the test takes what follows, round and round. So every element of a list comes up somewhere in a suite.
// What reproduces a bug is no case of such a list, and is always run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace kiln::test {

inline bool runs_all_cases() { return std::getenv("KILN_TEST_ALL") != nullptr; }

// Of `count` elements, the one that a test's first part begins with.
inline size_t first_part(const std::string& test, size_t count) { return std::hash<std::string>()(test) % count; }

inline std::string name_of_test() {
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  return test ? std::string(test->test_suite_name()) + "." + test->name() : "";
}

// How many of `count` elements, round and round, the test has taken at this place before these `length`.
inline size_t taken_before(size_t count, size_t length, const std::source_location& where) {
  using Place = std::tuple<std::string, std::string, unsigned, unsigned>;
  static std::map<Place, size_t> taken;
  size_t& taken_here = taken[{name_of_test(), where.file_name(), where.line(), where.column()}];
  return std::exchange(taken_here, (taken_here + length) % count) % count;
}

// Of `count` elements, the one that the next part begins with; parts have `length`.
inline size_t next_part(size_t count, size_t length, const std::source_location& where) {
  return (first_part(name_of_test(), count) + taken_before(count, length, where)) % count;
}

// `most` of the elements.
template <class T>
std::vector<T> sampled(std::vector<T> all, size_t most,
                       const std::source_location& where = std::source_location::current()) {
  if (runs_all_cases() || all.size() <= most) return all;
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(next_part(all.size(), most, where));
  std::rotate(all.begin(), first, all.end());
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(most), all.end());
  return all;
}

// Whether the test has not been here before: its first case may have more than the others.
inline bool is_first_call(const std::source_location& where = std::source_location::current()) {
  constexpr size_t kMany = size_t{1} << 40;
  return runs_all_cases() || taken_before(kMany, 1, where) == 0;
}

// For cases that no list holds: true of one call in so many.
inline bool is_sampled(size_t one_in, const std::source_location& where = std::source_location::current()) {
  return runs_all_cases() || next_part(one_in, 1, where) == 0;
}

}  // namespace kiln::test
