// The parts of the HTML report that do not depend on what it reports.
#pragma once

namespace kiln::autotune {

extern const char* const kReportStyle;
// Builds the page from the JSON of page_json in #data. All text goes in as text, never as markup.
extern const char* const kReportScript;
extern const char* const kReportPlots;  // the drawing functions that the script uses

}  // namespace kiln::autotune
