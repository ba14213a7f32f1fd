// What the process that compiles says of programs and libraries that are not Kiln's: whether they may be used, and what
// a process that starts them may do. What is empty is as if there were no such word: all may be used, nothing is given
// up.
#pragma once

#include <functional>
#include <string>

#include "kiln/dsl/result.h"

namespace kiln::codegen {

struct Outside {
  // Whether the file may be executed; the error says why not, and names it.
  std::function<Result<void>(const std::string& path)> check_program = nullptr;
  // As dlopen(), by a path or a name; the error has no name in front.
  std::function<Result<void*>(const std::string& library)> open_library = nullptr;
  // In a process that starts programs for this one, before it takes a job, and in one that is about to become such a
  // program, besides. Where they fail there is no such process.
  std::function<Result<void>()> confine_helper = nullptr, confine_program = nullptr;
};

}  // namespace kiln::codegen
