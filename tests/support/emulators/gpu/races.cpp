#include "races.h"

namespace kiln::test {

bool Races::read(size_t offset, size_t count, int thread, uint64_t epoch) {
  bool race = false;
  for (size_t i = offset; i < offset + count; ++i) {
    Byte& byte = bytes_[i];
    race = race || (byte.written == epoch && byte.writer != thread);
    byte.reader = byte.read == epoch && byte.reader != thread ? kSeveral : thread;
    byte.read = epoch;
  }
  return race;
}

bool Races::write(size_t offset, size_t count, int thread, uint64_t epoch, const std::byte* values) {
  bool race = false;
  for (size_t i = offset; i < offset + count; ++i) {
    Byte& byte = bytes_[i];
    const std::byte value = values[i - offset];
    race = race || (byte.read == epoch && byte.reader != thread) ||
           (byte.written == epoch && byte.writer != thread && byte.value != value);
    byte.writer = byte.written == epoch && byte.writer != thread ? kSeveral : thread;
    byte.written = epoch;
    byte.value = value;
  }
  return race;
}

}  // namespace kiln::test
