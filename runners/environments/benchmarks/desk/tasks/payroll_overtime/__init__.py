"""payroll-overtime: calculate regular hours, overtime and pay of one department from clock times."""
