// NVIDIA's assembler as a program. A worker may start no programs, so a process of its own does it for the worker: the
// assembler's process, forked before the worker enters its sandbox. It starts one more for each job, and reads nothing;
// what takes the worker's word and becomes the program can start none. Files are anonymous memory: nothing is left
// behind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kiln/codegen/outside.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::nvptx {

// What KILN_PTXAS names, else the first `ptxas` in PATH or in /usr/local/cuda/bin that may be executed; empty where
// there is none. Error: what the variable names may not be.
Result<std::string> find_ptxas(const Outside& outside = {});

class AssemblerProcess {
 public:
  // Forks. The process ends with this object, and with this process.
  static Result<std::unique_ptr<AssemblerProcess>> start(std::string program, const Outside& outside = {});
  ~AssemblerProcess();
  AssemblerProcess(const AssemblerProcess&) = delete;
  AssemblerProcess& operator=(const AssemblerProcess&) = delete;

  struct Output {
    std::vector<std::byte> cubin;
    std::string log;
  };
  // Error: the program cannot run, or its words when it refuses the code.
  Result<Output> assemble(const std::string& ptx, const std::string& processor, bool line_tables) const;

 private:
  AssemblerProcess(std::string program, int pid, int socket)
      : program_(std::move(program)), pid_(pid), socket_(socket) {}

  const std::string program_;
  const int pid_, socket_;
};

}  // namespace kiln::codegen::nvptx
