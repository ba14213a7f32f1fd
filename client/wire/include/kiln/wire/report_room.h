// Where a process that may be taken over leaves the report of its crash: room of a fixed size, which whoever has
// started it reads when it is dead. So what it writes there is bounded, is made harmless, and is on no disk while it
// lives.
#pragma once

#include <string>

#include "kiln/wire/fd.h"

namespace kiln::wire {

// Its number in a program that is given one.
inline constexpr int kReportRoom = 3;

class ReportRoom {
 public:
  static constexpr size_t kSize = 16u << 10;

  // Where there can be none, there is no report.
  ReportRoom();
  // To be passed on; -1: none.
  int fd() const { return file_.get(); }
  // Appends what is in it to the report `path`, as install_crash_report() would; control characters are replaced.
  void keep(const std::string& path) const;

 private:
  UniqueFd file_;
};

// Whether that descriptor is one.
bool is_report_room(int fd);
// This process's report goes there: instead of hold_crash_report().
void report_crashes_into(int room);

}  // namespace kiln::wire
