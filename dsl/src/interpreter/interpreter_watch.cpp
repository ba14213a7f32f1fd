// Interpreter: every access to a buffer is checked against its extent, and watched for races between programs and for
// pointer parameters that overlap.
#include <cstring>

#include "interpreter/interpreter_impl.h"
#include "kiln/dsl/outside.h"

namespace kiln::dsl::interpreter {
namespace {

bool overlap(const Buffer& a, const Buffer& b) {
  if (a.extent == kUnknownExtent || b.extent == kUnknownExtent) return false;
  auto end = [](const Buffer& x) { return x.data + static_cast<size_t>(x.extent) * x.element_bytes; };
  return a.extent > 0 && b.extent > 0 && a.data < end(b) && b.data < end(a);
}

std::string program_text(const Machine& machine, uint32_t number) {
  const uint64_t index = number - 1, x = machine.grid[0], y = machine.grid[1];
  return std::to_string(index % x) + ", " + std::to_string(index / x % y) + ", " + std::to_string(index / x / y);
}

std::string element_text(const Machine& machine, const Access& access) {
  return "index " + std::to_string(access.index) + " of `" + machine.kernel.params[access.parameter].name + "`";
}

}  // namespace

void Memory::bind(const Machine& machine) {
  const auto& params = machine.kernel.params;
  buffers.resize(params.size());
  const double programs = double{1} * machine.grid[0] * machine.grid[1] * machine.grid[2];
  for (size_t i = 0; i < params.size(); ++i) {
    if (!params[i].type.pointer) continue;
    const Argument& argument = machine.arguments[i];
    Buffer& buffer = buffers[i];
    buffer.data = static_cast<std::byte*>(argument.data);
    buffer.extent = argument.data == nullptr || argument.extent < 0 ? 0 : argument.extent;
    buffer.element_bytes = static_cast<size_t>(info(params[i].type.element).bytes);
    // Program numbers have 31 bits; nobody interprets more.
    buffer.tracked = machine.options.check_races && !params[i].readonly && programs > 1 && programs < 2147483648.0;
    for (size_t j = 0; machine.options.check_aliasing && j < i; ++j) {
      const bool allowed = params[i].may_alias || params[j].may_alias || (params[i].readonly && params[j].readonly);
      if (allowed || !overlap(buffer, buffers[j])) continue;
      buffer.overlaps = buffers[j].overlaps = true;
    }
  }
}

void Memory::begin_program(const Machine& machine) {
  const auto& [x, y, z] = machine.program;
  program = 1 + x + machine.grid[0] * (y + machine.grid[1] * z);
  synchronised = false;
}

std::string Memory::note(const Machine& machine, const Access& access, bool changes) {
  const Buffer& buffer = buffers[access.parameter];
  std::string problem = buffer.tracked ? note_race(machine, access, changes) : "";
  return problem.empty() && buffer.overlaps ? note_overlap(machine, access) : problem;
}

std::string Memory::note_race(const Machine& machine, const Access& access, bool changes) {
  Touched& element = buffers[access.parameter].touched.at(access.index);
  const uint32_t writer = element.writer & ~Touched::kAtomicBit;
  const bool was_atomic = element.writer != writer, is_atomic = access.use == Use::kAtomic;
  const bool other_wrote = writer != 0 && writer != program;
  const bool other_read = element.reader != 0 && element.reader != program;
  std::string problem;
  if (access.use == Use::kRead) {
    if (other_wrote) problem = " is read here and written by program " + program_text(machine, writer);
    element.reader = element.reader == 0 || element.reader == program ? program : Touched::kMany;
  } else {
    // Equal bits written twice, or over what was read, make no difference in any order.
    if (other_wrote && !(is_atomic && was_atomic) && (changes || is_atomic || was_atomic)) {
      problem = " is written here and by program " + program_text(machine, writer);
    } else if (other_read && (changes || is_atomic)) {
      problem = " is written here and read by another program";
      if (element.reader != Touched::kMany) problem += ", " + program_text(machine, element.reader);
    }
    // An equal write by another program does not hide the first: what this one writes next may differ.
    if (!other_wrote || is_atomic || changes) element.writer = program | (is_atomic ? Touched::kAtomicBit : 0);
  }
  if (problem.empty() || synchronised) return "";
  return element_text(machine, access) + problem + ": a race, for programs run in any order";
}

std::string Memory::note_overlap(const Machine& machine, const Access& access) {
  const Buffer& buffer = buffers[access.parameter];
  const std::byte* address = buffer.data + static_cast<size_t>(access.index) * buffer.element_bytes;
  const bool writes = access.use != Use::kRead;
  auto conflicts = [&](const Toucher& other) {
    return other.program != 0 && other.parameter != access.parameter &&
           (other.program != program || other.lane != access.lane);
  };
  for (size_t i = 0; i < buffer.element_bytes; ++i) {
    Byte& byte = bytes[address + i];
    const bool with_write = conflicts(byte.write);
    if (with_write || (writes && conflicts(byte.read))) {
      const Toucher& other = with_write ? byte.write : byte.read;
      return element_text(machine, access) + ", lane " + std::to_string(access.lane) + ", shares memory with `" +
             machine.kernel.params[other.parameter].name + "`, touched by lane " + std::to_string(other.lane) +
             " of program " + program_text(machine, other.program) + ": neither parameter is may_alias";
    }
    (writes ? byte.write : byte.read) = {access.parameter, program, access.lane};
  }
  return "";
}

Result<std::byte*> touch(Machine& machine, const Op& op, const Access& access, bool wrapped, const uint64_t* value) {
  const std::string& name = machine.kernel.params[access.parameter].name;
  if (wrapped) {
    return machine.fail(op, "the index into `" + name + "` wrapped around its integer type; it came out as " +
                                std::to_string(access.index));
  }
  std::byte* address = machine.memory.locate(access.parameter, access.index);
  const Buffer& buffer = machine.memory.buffers[access.parameter];
  if (address == nullptr) {
    return machine.fail(op, outside_text(name, machine.arguments[access.parameter], access.index));
  }
  if (buffer.is_watched()) {
    const bool changes = value != nullptr && std::memcmp(address, value, buffer.element_bytes) != 0;
    const std::string problem = machine.memory.note(machine, access, changes);
    if (!problem.empty()) return machine.fail(op, problem);
  }
  return address;
}

}  // namespace kiln::dsl::interpreter
