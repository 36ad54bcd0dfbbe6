import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** What a program does with the JDBC driver alone: a line for each step, with its result or its error. */
public class Client {
  interface Step {
    Object run() throws Exception;
  }

  static void step(String name, Step step) {
    String found;
    try {
      found = String.valueOf(step.run());
    } catch (Exception error) {
      found = error.getClass().getSimpleName() + ": " + error.getMessage();
    }
    System.out.println("step\t" + name + "\t" + found.replace("\n", " "));
  }

  static String rows(ResultSet result, int... columns) throws SQLException {
    List<String> found = new ArrayList<>();
    while (result.next()) {
      List<String> row = new ArrayList<>();
      for (int column : columns) row.add(String.valueOf(result.getObject(column)));
      found.add(String.join(",", row));
    }
    return String.join(";", found);
  }

  public static void main(String[] args) throws Exception {
    try (Connection connection = DriverManager.getConnection(args[0]);
        Statement statement = connection.createStatement()) {
      DatabaseMetaData about = connection.getMetaData();
      step("query", () -> rows(statement.executeQuery("select id, name from shop.orders where id < 3 order by id"), 1, 2));
      step("create", () -> statement.executeUpdate("create database jdbc"));
      step("create table", () -> statement.executeUpdate("create table jdbc.made (id long, name string)"));
      step("insert", () -> statement.executeUpdate("insert into jdbc.made values (1, 'a'), (2, 'b')"));
      step("delete", () -> statement.execute("delete from jdbc.made where id = 1") + " " + statement.getUpdateCount());
      step("changed", () -> rows(statement.executeQuery("select * from jdbc.made"), 1, 2));
      step("catalogs", () -> rows(about.getCatalogs(), 1));
      step("schemas", () -> rows(about.getSchemas("moulin", "jd%"), 1, 2));
      step("tables", () -> rows(about.getTables(null, "jdbc", "%", new String[] {"TABLE"}), 1, 2, 3, 4));
      step("columns", () -> rows(about.getColumns(null, "jdbc", "made", "%"), 3, 4, 5));
      step("show", () -> rows(statement.executeQuery("show tables in jdbc"), 2));
      step("drop", () -> statement.executeUpdate("drop database jdbc cascade"));
      step("wrong column", () -> statement.executeQuery("select nothing from shop.orders"));
      step("file", () -> statement.executeQuery("select * from text.`/etc/hostname`"));
      step("cancel", () -> cancelled(connection));
      step("after", () -> rows(statement.executeQuery("select 1"), 1));
    }
    step("wrong token", () -> asked(args[1]));
    step("reader", () -> asked(args[2]));
  }

  static Object cancelled(Connection connection) throws Exception {
    try (Statement slow = connection.createStatement()) {
      ResultSet result =
          slow.executeQuery("select count(*) from range(0, 100000000000, 1, 2) where sqrt(id) < 0");
      slow.cancel();
      return rows(result, 1);
    }
  }

  static Object asked(String url) throws Exception {
    try (Connection connection = DriverManager.getConnection(url);
        Statement statement = connection.createStatement()) {
      return statement.executeUpdate("truncate table shop.orders");
    }
  }
}
