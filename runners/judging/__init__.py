"""Finished trials judged by models or graded again. Verdicts and grades are recorded beside the trials."""
