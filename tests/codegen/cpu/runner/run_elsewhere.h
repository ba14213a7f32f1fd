// Runs a compiled kernel in a process of its own, which may be that of an emulator: the other end is runner.c.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>

#include "kiln/abi/metadata.h"
#include "random/case.h"

namespace kiln::test {

using random_kernel::Case;
using random_kernel::Input;

inline void write_case(const std::string& path, const dsl::Kernel& kernel, const abi::Metadata& metadata,
                       const std::array<uint32_t, 3>& grid, const std::vector<Input>& inputs) {
  std::ofstream file(path, std::ios::binary);
  auto put = [&](uint64_t number) { file.write(reinterpret_cast<const char*>(&number), sizeof number); };
  put(static_cast<uint64_t>(metadata.params_bytes));
  put(static_cast<uint64_t>(metadata.scratch_bytes.value_or(0)));
  put(static_cast<uint64_t>(metadata.workspace_bytes.value_or(0)));
  for (uint32_t extent : grid) put(extent);
  put(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const dsl::Type& type = kernel.params[i].type;
    put(metadata.params[i].offset);
    put(type.pointer ? 8 : static_cast<uint64_t>(dsl::info(type.element).bytes));
    put(inputs[i].buffer.size());
    put(inputs[i].bits);
    file.write(reinterpret_cast<const char*>(inputs[i].buffer.data()),
               static_cast<std::streamsize>(inputs[i].buffer.size()));
  }
}

inline Result<std::vector<Input>> read_buffers(const std::string& path, std::vector<Input> inputs) {
  std::ifstream file(path, std::ios::binary);
  for (Input& input : inputs) {
    file.read(reinterpret_cast<char*>(input.buffer.data()), static_cast<std::streamsize>(input.buffer.size()));
  }
  if (!file) return internal_error("the emulated runner wrote too little");
  return inputs;
}

// The arguments after it ran. `runner` gets the entry and the file of the case, behind the file of the kernel.
inline Result<std::vector<Input>> run_elsewhere(const Case& test, const abi::Metadata& metadata,
                                                const std::string& file,
                                                const std::function<Result<std::string>(const std::string&)>& runner) {
  auto kernel = random_kernel::instantiated(test);
  if (!kernel) return kernel.error();
  auto grid = random_kernel::grid_of(*kernel, test.inputs);
  if (!grid) return grid.error();
  write_case(file, *kernel, metadata, *grid, test.inputs);
  auto output = runner(metadata.entry + " " + file);
  if (!output) return output.error();
  return read_buffers(file, test.inputs);
}

// What a command says, with its errors; an error where it fails.
inline Result<std::string> output_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string output;
  for (int c; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  const int status = pipe != nullptr ? ::pclose(pipe) : -1;
  if (status == 0) return output;
  return internal_error("`" + command.substr(0, command.find(' ')) + "` ended with status " + std::to_string(status) +
                        ": " + output);
}

}  // namespace kiln::test
